//! Times in Kubernetes' JSON, parsed by Go's rules, with Go's error texts.
//!
//! Go's parser is laxer than RFC 3339 in places (one digit is enough for an hour, a comma may start the fraction) and
//! stricter in others (`T` and `Z` are capitals; a [`MicroTime`] has exactly six digits). This parser follows the
//! layout element by element, as Go does.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use watchkeeper_meta::Time;

/// The layout of `metav1.Time`.
const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
/// The layout of `metav1.MicroTime`.
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// `metav1.Time` in JSON: whole seconds in UTC, `null` when unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub Option<Time>);

/// `metav1.MicroTime` in JSON: microseconds in UTC, `null` when unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MicroTime(pub Option<Time>);

/// Text that is not a time. The messages are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadTimeError {
    /// Another text than the layout's element.
    #[error("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")]
    Element {
        /// The text given.
        text: String,
        /// The layout.
        layout: &'static str,
        /// The text from the error on.
        rest: String,
        /// The expected element.
        element: &'static str,
    },
    /// An element out of its range.
    #[error("parsing time {text:?}: {element} out of range")]
    OutOfRange {
        /// The text given.
        text: String,
        /// `month`, `day`, `hour`, …
        element: &'static str,
    },
    /// Text after the end of the time.
    #[error("parsing time {text:?}: extra text: {rest:?}")]
    ExtraText {
        /// The text given.
        text: String,
        /// The extra text.
        rest: String,
    },
}

/// Parses a `metav1.Time`: any fraction is accepted.
pub fn read_time(text: &str) -> Result<Time, ReadTimeError> {
    let mut reader = Reader::new(text, LAYOUT);
    let seconds = reader.date_and_clock()?;
    let nanos = reader.optional_fraction();
    reader.zoned(seconds, nanos)
}

/// Parses a `metav1.MicroTime`: exactly six digits of a second.
pub fn read_micro_time(text: &str) -> Result<Time, ReadTimeError> {
    let mut reader = Reader::new(text, MICRO_LAYOUT);
    let seconds = reader.date_and_clock()?;
    let nanos = reader.six_digit_fraction()?;
    reader.zoned(seconds, nanos)
}

/// Walks a text and its layout side by side.
struct Reader<'a> {
    text: &'a str,
    layout: &'static str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, layout: &'static str) -> Self {
        Self {
            text,
            layout,
            rest: text,
        }
    }

    /// Seconds since 1970 as if the text were in UTC.
    fn date_and_clock(&mut self) -> Result<i64, ReadTimeError> {
        let year = self.number("2006", 4..=4)?;
        self.literal("-")?;
        let month = self.number("01", 2..=2)?;
        self.within("month", month, 1..=12)?;
        self.literal("-")?;
        let day = self.number("02", 2..=2)?;
        self.literal("T")?;
        let hour = self.number("15", 1..=2)?;
        self.within("hour", hour, 0..=23)?;
        self.literal(":")?;
        let minute = self.number("04", 2..=2)?;
        self.within("minute", minute, 0..=59)?;
        self.literal(":")?;
        let second = self.number("05", 2..=2)?;
        self.within("second", second, 0..=59)?;
        self.within("day", day, 1..=days_in_month(year, month))?;
        Ok(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }

    /// Nanoseconds after a point or comma, if there is one; digits beyond the ninth are dropped.
    fn optional_fraction(&mut self) -> i32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else {
            return 0;
        };
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return 0;
        }
        self.rest = &after[digits..];
        nanos(&after[..digits.min(9)])
    }

    fn six_digit_fraction(&mut self) -> Result<i32, ReadTimeError> {
        let digits = self
            .rest
            .strip_prefix(['.', ','])
            .and_then(|after| after.get(..6));
        match digits {
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                self.rest = &self.rest[7..];
                Ok(nanos(digits))
            }
            _ => Err(self.unexpected(self.rest, ".000000")),
        }
    }

    /// Parses the zone, which ends the text.
    fn zoned(&mut self, seconds: i64, nanos: i32) -> Result<Time, ReadTimeError> {
        let offset = self.zone()?;
        match self.rest {
            "" => Ok(Time {
                seconds: seconds - offset,
                nanos,
            }),
            rest => Err(ReadTimeError::ExtraText {
                text: self.text.to_owned(),
                rest: rest.to_owned(),
            }),
        }
    }

    fn zone(&mut self) -> Result<i64, ReadTimeError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let digit = |index: usize| {
            bytes
                .get(index)
                .filter(|byte| byte.is_ascii_digit())
                .map(|byte| i64::from(byte - b'0'))
        };
        let two = |index: usize| Some(digit(index)? * 10 + digit(index + 1)?);
        let (Some(sign @ (b'+' | b'-')), Some(hours), Some(b':'), Some(minutes)) =
            (bytes.first(), two(1), bytes.get(3), two(4))
        else {
            return Err(self.unexpected(self.rest, "Z07:00"));
        };
        // Go's bounds.
        self.within("time zone offset hour", hours, 0..=24)?;
        self.within("time zone offset minute", minutes, 0..=60)?;
        self.rest = &self.rest[6..];
        let offset = hours * 3600 + minutes * 60;
        Ok(if *sign == b'-' { -offset } else { offset })
    }

    fn number(
        &mut self,
        element: &'static str,
        width: std::ops::RangeInclusive<usize>,
    ) -> Result<i64, ReadTimeError> {
        let digits = self
            .rest
            .bytes()
            .take(*width.end())
            .take_while(u8::is_ascii_digit)
            .count();
        if digits < *width.start() {
            return Err(self.unexpected(self.rest, element));
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        Ok(number
            .bytes()
            .fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), ReadTimeError> {
        match self.rest.strip_prefix(literal) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.unexpected(self.rest, literal)),
        }
    }

    fn within(
        &self,
        element: &'static str,
        value: i64,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<(), ReadTimeError> {
        match range.contains(&value) {
            true => Ok(()),
            false => Err(ReadTimeError::OutOfRange {
                text: self.text.to_owned(),
                element,
            }),
        }
    }

    fn unexpected(&self, rest: &str, element: &'static str) -> ReadTimeError {
        ReadTimeError::Element {
            text: self.text.to_owned(),
            layout: self.layout,
            rest: rest.to_owned(),
            element,
        }
    }
}

/// Nanoseconds from at most nine `digits` after the point.
fn nanos(digits: &str) -> i32 {
    format!("{digits:0<9}").parse().unwrap_or(0)
}

fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, years 0 to 9999.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Counted from March, leap days come last and need no special case.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// The two types differ only in their layout.
macro_rules! json_time {
    ($name:ident, $read:ident, $print:ident) => {
        impl FromStr for $name {
            type Err = ReadTimeError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $read(text).map(|time| Self(Some(time)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    Some(time) => f.write_str(&time.$print()),
                    None => f.write_str("null"),
                }
            }
        }

        impl From<Time> for $name {
            fn from(time: Time) -> Self {
                Self(Some(time))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.map(Time::$print).serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match Option::<String>::deserialize(deserializer)? {
                    Some(text) => text.parse().map_err(serde::de::Error::custom),
                    None => Ok(Self(None)),
                }
            }
        }
    };
}

json_time!(Timestamp, read_time, to_rfc3339);
json_time!(MicroTime, read_micro_time, to_rfc3339_micro);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_by_gos_rules() {
        let check = |typed: &str, printed: &str| {
            assert_eq!(
                typed.parse::<Timestamp>().unwrap().to_string(),
                printed,
                "{typed}"
            );
        };
        check("2008-01-01T01:01:01Z", "2008-01-01T01:01:01Z");
        check("2008-01-01T02:01:01.5+01:00", "2008-01-01T01:01:01Z");
        check("2008-01-01T02:01:01,123456789123-01:30", "2008-01-01T03:31:01Z");
        check("2008-02-29T5:00:00Z", "2008-02-29T05:00:00Z");
        check("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z");
        check("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z");
        check("9999-12-30T21:59:59Z", "9999-12-30T21:59:59Z");
    }

    #[test]
    fn micro_times_have_six_digits() {
        let time = read_micro_time("2020-01-01T00:00:00.000001Z").unwrap();
        assert_eq!(
            time,
            Time {
                seconds: 1_577_836_800,
                nanos: 1_000
            }
        );
        assert_eq!(MicroTime::from(time).to_string(), "2020-01-01T00:00:00.000001Z");
    }

    #[test]
    fn bad_times_are_refused_with_gos_message() {
        let check = |text: &str, message: &str| assert_eq!(read_time(text).unwrap_err().to_string(), message);
        check(
            "yesterday",
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        );
        check(
            "",
            r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#,
        );
        check(
            "2020-01-01",
            r#"parsing time "2020-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
        );
        check(
            "2020-01-01t00:00:00Z",
            r#"parsing time "2020-01-01t00:00:00Z" as "2006-01-02T15:04:05Z07:00": cannot parse "t00:00:00Z" as "T""#,
        );
        check(
            "2020-13-01T00:00:00Z",
            r#"parsing time "2020-13-01T00:00:00Z": month out of range"#,
        );
        check(
            "2021-02-29T00:00:00Z",
            r#"parsing time "2021-02-29T00:00:00Z": day out of range"#,
        );
        check(
            "2021-02-01T24:00:00Z",
            r#"parsing time "2021-02-01T24:00:00Z": hour out of range"#,
        );
        check(
            "2021-02-01T00:00:00Zulu",
            r#"parsing time "2021-02-01T00:00:00Zulu": extra text: "ulu""#,
        );
        check(
            "2021-02-01T00:00:00",
            r#"parsing time "2021-02-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
        );
    }

    #[test]
    fn bad_micro_times_are_refused_with_gos_message() {
        let check = |text: &str, rest: &str, element: &str| {
            let message = format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as {element:?}"
            );
            assert_eq!(read_micro_time(text).unwrap_err().to_string(), message);
        };
        check("2020-01-01T00:00:00.5Z", ".5Z", ".000000");
        check("2020-01-01T00:00:00Z", "Z", ".000000");
        check("2020-01-01T00:00:00.1234567Z", "7Z", "Z07:00");
    }

    #[test]
    fn an_unset_time_is_null() {
        assert_eq!(serde_json::to_string(&Timestamp(None)).unwrap(), "null");
        assert_eq!(
            serde_json::from_str::<MicroTime>("null").unwrap(),
            MicroTime(None)
        );
        let error = serde_json::from_str::<Timestamp>("\"soon\"").unwrap_err();
        assert!(error.to_string().contains("cannot parse \"soon\" as \"2006\""));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(seconds in -62_135_596_800i64..253_402_207_200, micros in 0..1_000_000i32) {
            let time = Time { seconds, nanos: micros * 1_000 };
            prop_assert_eq!(read_micro_time(&time.to_rfc3339_micro()), Ok(time));
            prop_assert_eq!(read_time(&time.to_rfc3339()), Ok(Time::from_seconds(seconds)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9]{0,5}[-0-9TZé:.+]{0,25}") {
            let _ = (read_time(&text), read_micro_time(&text));
        }
    }
}
