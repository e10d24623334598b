//! Durations in Go's notation: `1h30m0s`, `1.5s`, `300ms`.
//!
//! Kubernetes keeps them as signed nanoseconds, about 292 years either way.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The units in nanoseconds. Both letters for micro are in use.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SECOND),
    ("m", 60 * NANOS_PER_SECOND),
    ("h", 3600 * NANOS_PER_SECOND),
];

/// A signed duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration {
    /// Its length.
    pub nanos: i64,
}

/// Text that is not a duration. The messages are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// A missing number, or a duration longer than 292 years.
    #[error("time: invalid duration {text:?}")]
    Invalid {
        /// The text given.
        text: String,
    },
    /// A number without a unit.
    #[error("time: missing unit in duration {text:?}")]
    MissingUnit {
        /// The text given.
        text: String,
    },
    /// A number with an unknown unit.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The text given.
        text: String,
    },
}

impl Duration {
    /// Whole seconds, saturating.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self {
            nanos: seconds.saturating_mul(NANOS_PER_SECOND as i64),
        }
    }

    /// As a standard duration; `None` if negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.nanos)
            .ok()
            .map(std::time::Duration::from_nanos)
    }
}

impl From<std::time::Duration> for Duration {
    /// Saturates at 292 years.
    fn from(duration: std::time::Duration) -> Self {
        Self {
            nanos: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseDurationError::Invalid {
            text: text.to_owned(),
        };
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0u64;
        while !rest.is_empty() {
            let (part, after) = component(rest, text)?;
            total = total
                .checked_add(part)
                .filter(|sum| *sum <= 1 << 63)
                .ok_or_else(invalid)?;
            rest = after;
        }
        match negative {
            // The one value without a positive counterpart: -2^63.
            true => Ok(Self {
                nanos: (total as i64).wrapping_neg(),
            }),
            false => i64::try_from(total)
                .map(|nanos| Self { nanos })
                .map_err(|_| invalid()),
        }
    }
}

/// One number with its unit, in nanoseconds, and the rest of the text.
fn component<'a>(rest: &'a str, text: &str) -> Result<(u64, &'a str), ParseDurationError> {
    let invalid = || ParseDurationError::Invalid {
        text: text.to_owned(),
    };
    let (whole, after) = split_digits(rest);
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let end = after
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(after.len());
    let (name, after) = after.split_at(end);
    if name.is_empty() {
        return Err(ParseDurationError::MissingUnit {
            text: text.to_owned(),
        });
    }
    let Some((_, unit)) = UNITS.iter().find(|(unit, _)| *unit == name) else {
        return Err(ParseDurationError::UnknownUnit {
            unit: name.to_owned(),
            text: text.to_owned(),
        });
    };
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<u64>().map_err(|_| invalid())?
    };
    let nanos = whole
        .checked_mul(*unit)
        .and_then(|nanos| nanos.checked_add(fraction_of(fraction, *unit)));
    Ok((nanos.ok_or_else(invalid)?, after))
}

/// The fraction's share of a unit, rounded down. Digits beyond the nineteenth are below a nanosecond.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let digits = &digits[..digits.len().min(19)];
    let value: u128 = digits.parse().unwrap_or(0);
    (value * u128::from(unit) / 10u128.pow(digits.len() as u32)) as u64
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        let nanos = self.nanos.unsigned_abs();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write_decimal(f, nanos, 1_000, "µs"),
            1_000_000..NANOS_PER_SECOND => write_decimal(f, nanos, 1_000_000, "ms"),
            _ => write_clock(f, nanos),
        }
    }
}

/// `1h0m0s`: every unit below the largest is printed.
fn write_clock(f: &mut fmt::Formatter<'_>, nanos: u64) -> fmt::Result {
    let minute = 60 * NANOS_PER_SECOND;
    let (hours, minutes) = (nanos / (60 * minute), nanos / minute % 60);
    if hours > 0 {
        write!(f, "{hours}h")?;
    }
    if nanos >= minute {
        write!(f, "{minutes}m")?;
    }
    write_decimal(f, nanos % minute, NANOS_PER_SECOND, "s")
}

/// A number of units with as many digits after the point as it needs.
fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", nanos % unit);
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        write!(f, ".{fraction}")?;
    }
    f.write_str(name)
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_print_as_go_prints_them() {
        let check = |typed: &str, printed: &str| {
            assert_eq!(typed.parse::<Duration>().unwrap().to_string(), printed, "{typed}");
        };
        check("0", "0s");
        check("-0", "0s");
        check("0s", "0s");
        check("5s", "5s");
        check("30m", "30m0s");
        check("1h", "1h0m0s");
        check("90s", "1m30s");
        check("1.5h", "1h30m0s");
        check("1h15m30.918s", "1h15m30.918s");
        check("1500ms", "1.5s");
        check("1ns", "1ns");
        check("1100us", "1.1ms");
        check("2.2µs", "2.2µs");
        check("2.2μs", "2.2µs");
        check("-5m", "-5m0s");
        check("+.5s", "500ms");
        check("5.s", "5s");
        check("0.3333333333333333333333s", "333.333333ms");
        check("100h", "100h0m0s");
        check("9223372036854775807ns", "2562047h47m16.854775807s");
        check("-9223372036854775808ns", "-2562047h47m16.854775808s");
    }

    #[test]
    fn bad_text_is_refused_with_gos_message() {
        let check = |text: &str, message: &str| {
            assert_eq!(text.parse::<Duration>().unwrap_err().to_string(), message);
        };
        check("", "time: invalid duration \"\"");
        check("-", "time: invalid duration \"-\"");
        check("s", "time: invalid duration \"s\"");
        check(".s", "time: invalid duration \".s\"");
        check("3", "time: missing unit in duration \"3\"");
        check("1h3", "time: missing unit in duration \"1h3\"");
        check("1d", "time: unknown unit \"d\" in duration \"1d\"");
        check("1 s", "time: unknown unit \" s\" in duration \"1 s\"");
        check(
            "9223372036854775808ns",
            "time: invalid duration \"9223372036854775808ns\"",
        );
        check("3000000h", "time: invalid duration \"3000000h\"");
    }

    #[test]
    fn json_holds_the_text() {
        let read: Duration = serde_json::from_str("\"90s\"").unwrap();
        assert_eq!(read, Duration::from_seconds(90));
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"1m30s\"");
        assert_eq!(read.to_std(), Some(std::time::Duration::from_secs(90)));
        assert_eq!(Duration { nanos: -1 }.to_std(), None);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(nanos in any::<i64>()) {
            let duration = Duration { nanos };
            prop_assert_eq!(duration.to_string().parse::<Duration>(), Ok(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?([0-9.]{0,25}[a-zµ]{0,2}){0,3}") {
            let _ = text.parse::<Duration>();
        }
    }
}
