//! Schedules in cron's five fields, or by a name: whether they can be read. When they are due is not a server's to
//! know.
//!
//! ```text
//! 30 4 1,15 * mon-fri      minute, hour, day of month, month, day of week
//! @daily, @every 1h30m     names
//! ```

use watchkeeper_meta::quote;

/// What a field counts, with the names that some of its numbers have.
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

const NAMED: &[&str] = &[
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Why a schedule cannot be read.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.starts_with('@') {
        return check_name(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        return Err(format!(
            "expected exactly 5 fields, found {found}: [{}]",
            fields.join(" ")
        ));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, range)| {
        // Go leaves out empty parts.
        let mut parts = field.split(',').filter(|part| !part.is_empty());
        parts.try_for_each(|part| check_part(part, range))
    })
}

fn check_name(name: &str) -> Result<(), String> {
    if NAMED.contains(&name) {
        return Ok(());
    }
    match name.strip_prefix("@every ") {
        Some(duration) => match duration.parse::<watchkeeper_wire::values::Duration>() {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to parse duration {name}: {error}")),
        },
        None => Err(format!("unrecognized descriptor: {name}")),
    }
}

/// `*`, `5`, `1-5`, each with a step behind a slash.
fn check_part(part: &str, range: &FieldRange) -> Result<(), String> {
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
    let (start, end) = match (first, last, step) {
        ("*" | "?", _, _) => (range.min, range.max),
        (first, Some(last), _) => (range.number(first)?, range.number(last)?),
        (first, None, Some(_)) => (range.number(first)?, range.max),
        (first, None, None) => (range.number(first)?, range.number(first)?),
    };
    let step = step.map_or(Ok(1), whole_number)?;
    if start < range.min {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {part}",
            range.min
        ));
    }
    if end > range.max {
        return Err(format!(
            "end of range ({end}) above maximum ({}): {part}",
            range.max
        ));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {part}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    Ok(())
}

impl FieldRange {
    fn number(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().zip(self.min..);
        let named = named.filter(|(name, _)| name.eq_ignore_ascii_case(text));
        match named.map(|(_, number)| number).next() {
            Some(number) => Ok(number),
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
    use super::check;

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
            assert_eq!(check(schedule).err().unwrap_or_default(), why, "{schedule}");
        }
    }
}
