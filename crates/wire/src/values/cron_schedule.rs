//! Cron schedules, with five fields or by name, and their next times.
//!
//! ```text
//! 30 4 1,15 * mon-fri      minute, hour, day of month, month, day of week
//! @daily, @every 1h30m     names
//! ```
//!
//! If day of month and day of week are both restricted, a day that matches either one matches. When clocks go
//! forward, times in the gap are skipped; when they go back, times occur twice.

use std::str::FromStr;

use jiff::{SignedDuration, ToSpan, Zoned};
use watchkeeper_meta::quote;

use super::Duration;

/// Five years, as in Kubernetes: a time further away, such as the 30th of February, never comes.
const HORIZON_YEARS: i32 = 5;

/// A cron schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronSchedule(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Calendar(Calendar),
    /// At an interval.
    Every(SignedDuration),
}

/// The matching minutes, hours, days of month, months and weekdays, a bit for each.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Calendar {
    bits: [u64; 5],
    /// True if days of month and weekdays are both restricted: then either one may match.
    either_day: bool,
}

/// An invalid schedule, with Kubernetes' text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseScheduleError(String);

/// The range of a field, with the names of its numbers.
struct FieldRange {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [FieldRange; 5] = [
    FieldRange {
        min: 0,
        max: 59,
        names: &[],
    },
    FieldRange {
        min: 0,
        max: 23,
        names: &[],
    },
    FieldRange {
        min: 1,
        max: 31,
        names: &[],
    },
    FieldRange {
        min: 1,
        max: 12,
        names: MONTHS,
    },
    FieldRange {
        min: 0,
        max: 6,
        names: DAYS,
    },
];

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The named schedules.
const NAMED: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The values of a field.
#[derive(Clone, Copy, Default)]
struct Field {
    bits: u64,
    /// True if the field is a star, which restricts nothing.
    is_star: bool,
}

impl CronSchedule {
    /// The first time after this one, in its time zone; `None` if there is none within five years.
    pub fn next_after(&self, after: &Zoned) -> Option<Zoned> {
        let calendar = match &self.0 {
            Kind::Calendar(calendar) => calendar,
            Kind::Every(span) => {
                let next = after.checked_add(*span).ok()?;
                return next
                    .checked_sub(i64::from(after.subsec_nanosecond()).nanoseconds())
                    .ok();
            }
        };
        let whole = i64::from(after.second())
            .seconds()
            .nanoseconds(i64::from(after.subsec_nanosecond()));
        let mut time = after.checked_sub(whole).ok()?.checked_add(1.minute()).ok()?;
        let horizon = i32::from(after.year()) + HORIZON_YEARS;
        while i32::from(time.year()) <= horizon {
            time = if !calendar.has_day(&time) {
                time.tomorrow().ok()?.start_of_day().ok()?
            } else if !calendar.has(HOUR, time.hour()) {
                let into_hour = i64::from(time.minute()).minutes();
                time.checked_sub(into_hour).ok()?.checked_add(1.hour()).ok()?
            } else if !calendar.has(MINUTE, time.minute()) {
                time.checked_add(1.minute()).ok()?
            } else {
                return Some(time);
            };
        }
        None
    }
}

const MINUTE: usize = 0;
const HOUR: usize = 1;
const DAY: usize = 2;
const MONTH: usize = 3;
const WEEKDAY: usize = 4;

impl Calendar {
    fn has(&self, field: usize, number: i8) -> bool {
        self.bits[field] & (1 << number) != 0
    }

    fn has_day(&self, time: &Zoned) -> bool {
        let weekday = time.weekday().to_sunday_zero_offset();
        let (day, weekday) = (self.has(DAY, time.day()), self.has(WEEKDAY, weekday));
        let is_meant = match self.either_day {
            true => day || weekday,
            false => day && weekday,
        };
        is_meant && self.has(MONTH, time.month())
    }
}

impl FromStr for CronSchedule {
    type Err = ParseScheduleError;

    fn from_str(schedule: &str) -> Result<Self, Self::Err> {
        match schedule.starts_with('@') {
            true => read_name(schedule),
            false => read_fields(schedule),
        }
        .map_err(ParseScheduleError)
    }
}

fn read_name(name: &str) -> Result<CronSchedule, String> {
    if let Some((_, fields)) = NAMED.iter().find(|(known, _)| *known == name) {
        return read_fields(fields);
    }
    let Some(duration) = name.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {name}"));
    };
    match duration.parse::<Duration>() {
        // At most once per second.
        Ok(duration) => {
            let seconds = duration.to_std().unwrap_or_default().as_secs().max(1);
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            Ok(CronSchedule(Kind::Every(SignedDuration::from_secs(seconds))))
        }
        Err(error) => Err(format!("failed to parse duration {name}: {error}")),
    }
}

fn read_fields(schedule: &str) -> Result<CronSchedule, String> {
    let texts: Vec<&str> = schedule.split_whitespace().collect();
    if texts.len() != FIELDS.len() {
        let found = texts.len();
        return Err(format!(
            "expected exactly 5 fields, found {found}: [{}]",
            texts.join(" ")
        ));
    }
    let mut fields = [Field::default(); 5];
    for ((field, text), range) in fields.iter_mut().zip(texts).zip(&FIELDS) {
        // Go skips empty parts.
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let part = range.read(part)?;
            field.bits |= part.bits;
            field.is_star |= part.is_star;
        }
    }
    Ok(CronSchedule(Kind::Calendar(Calendar {
        bits: fields.map(|field| field.bits),
        either_day: !fields[DAY].is_star && !fields[WEEKDAY].is_star,
    })))
}

impl FieldRange {
    /// `*`, `5`, `1-5`, each with an optional step after a slash.
    fn read(&self, part: &str) -> Result<Field, String> {
        let mut halves = part.split('/');
        let span = halves.next().unwrap_or_default();
        let step = halves.next();
        if halves.next().is_some() {
            return Err(format!("too many slashes: {part}"));
        }
        let mut ends = span.split('-');
        let (first, last) = (ends.next().unwrap_or_default(), ends.next());
        if ends.next().is_some() {
            return Err(format!("too many hyphens: {part}"));
        }
        let is_star = matches!(first, "*" | "?");
        let (start, end) = match (is_star, last, step) {
            (true, _, _) => (self.min, self.max),
            (_, Some(last), _) => (self.number(first)?, self.number(last)?),
            (_, None, Some(_)) => (self.number(first)?, self.max),
            (_, None, None) => (self.number(first)?, self.number(first)?),
        };
        let step = step.map_or(Ok(1), whole_number)?;
        self.check(part, start, end, step)?;
        let numbers = (start..=end).step_by(step as usize);
        Ok(Field {
            bits: numbers.fold(0, |bits, number| bits | 1 << number),
            is_star: is_star && step == 1,
        })
    }

    fn check(&self, part: &str, start: u32, end: u32, step: u32) -> Result<(), String> {
        let (min, max) = (self.min, self.max);
        if start < min {
            Err(format!(
                "beginning of range ({start}) below minimum ({min}): {part}"
            ))
        } else if end > max {
            Err(format!("end of range ({end}) above maximum ({max}): {part}"))
        } else if start > end {
            Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {part}"
            ))
        } else if step == 0 {
            Err(format!("step of range should be a positive number: {part}"))
        } else {
            Ok(())
        }
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let mut named = self.names.iter().zip(self.min..);
        match named.find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            Some((_, number)) => Ok(number),
            None => whole_number(text),
        }
    }
}

fn whole_number(text: &str) -> Result<u32, String> {
    let number: i64 = text.parse().map_err(|_| {
        let quoted = quote(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax")
    })?;
    u32::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn schedules_are_read_as_cron_reads_them() {
        for (schedule, why) in [
            ("0 3 * * *", ""),
            ("*/5 0-4 1,15 JAN-mar mon", ""),
            ("@daily", ""),
            ("@every 1h30m", ""),
            ("whenever", "expected exactly 5 fields, found 1: [whenever]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            ("@often", "unrecognized descriptor: @often"),
        ] {
            let read = schedule.parse::<CronSchedule>();
            let found = read.err().map(|error| error.to_string());
            assert_eq!(found.unwrap_or_default(), why, "{schedule}");
        }
    }

    #[track_caller]
    fn check(schedule: &str, after: &str, wanted: &[&str]) {
        let schedule: CronSchedule = schedule.parse().unwrap();
        let mut time: Zoned = after.parse().unwrap();
        for wanted in wanted {
            time = schedule.next_after(&time).unwrap();
            assert_eq!(time.to_string(), *wanted, "{schedule:?}");
        }
    }

    #[test]
    fn schedules_are_due_when_cron_says() {
        let monday = "2026-11-16T01:50:30+00:00[UTC]";
        check(
            "*/15 * * * *",
            monday,
            &["2026-11-16T02:00:00+00:00[UTC]", "2026-11-16T02:15:00+00:00[UTC]"],
        );
        check("@daily", monday, &["2026-11-17T00:00:00+00:00[UTC]"]);
        check(
            "0 9 * * MON-FRI",
            "2026-11-13T09:00:00+00:00[UTC]",
            &["2026-11-16T09:00:00+00:00[UTC]"],
        );
        // The 1st, or any Friday.
        check(
            "0 0 1 * fri",
            monday,
            &[
                "2026-11-20T00:00:00+00:00[UTC]",
                "2026-11-27T00:00:00+00:00[UTC]",
                "2026-12-01T00:00:00+00:00[UTC]",
            ],
        );
        check("0 0 29 2 *", monday, &["2028-02-29T00:00:00+00:00[UTC]"]);
        check(
            "@every 90s",
            monday,
            &["2026-11-16T01:52:00+00:00[UTC]", "2026-11-16T01:53:30+00:00[UTC]"],
        );
        let never: CronSchedule = "0 0 30 2 *".parse().unwrap();
        assert_eq!(never.next_after(&monday.parse().unwrap()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_next_time_is_the_first_that_matches(
            minute in 0u32..60, hour in prop_oneof![Just("*".to_owned()), (0u32..24).prop_map(|hour| hour.to_string())],
            day in prop_oneof![Just("*".to_owned()), (1u32..29).prop_map(|day| day.to_string())],
            weekday in prop_oneof![Just("*".to_owned()), (0u32..7).prop_map(|day| day.to_string())],
            start in 0i64..2_000_000_000,
        ) {
            let schedule: CronSchedule = format!("{minute} {hour} {day} * {weekday}").parse().unwrap();
            let start = jiff::Timestamp::from_second(start).unwrap().to_zoned(TimeZone::UTC);
            let Kind::Calendar(calendar) = &schedule.0 else { unreachable!() };
            let meant = |time: &Zoned| {
                calendar.has_day(time) && calendar.has(HOUR, time.hour()) && calendar.has(MINUTE, time.minute())
            };
            let first = (1..=40 * 24 * 60).map(|minutes: i64| {
                let floor = &start - i64::from(start.second()).seconds();
                floor + minutes.minutes()
            });
            prop_assert_eq!(schedule.next_after(&start), first.into_iter().find(meant));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<CronSchedule>();
        }
    }
}
