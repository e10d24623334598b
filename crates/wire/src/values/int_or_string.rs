//! A number or a text: a port by number or name, a limit by count or percentage.

use std::fmt;
use std::num::IntErrorKind;

use serde::{Deserialize, Serialize};

/// `8080` or `"http"`; `3` or `"25%"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a 32-bit number or a text")]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A name or a percentage.
    String(String),
}

/// The rounding of percentages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// 25 % of 10 is 2.
    Down,
    /// 25 % of 10 is 3.
    Up,
}

/// A text that is not a percentage. The messages are the API server's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// A text without a percent sign.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// A percent sign after something other than an integer.
    #[error(
        "invalid value for IntOrString: invalid value {text:?}: strconv.Atoi: parsing {:?}: {reason}",
        text.strip_suffix('%').unwrap_or(text)
    )]
    NotANumber {
        /// The text, with its percent sign.
        text: String,
        /// `invalid syntax` or `value out of range`.
        reason: &'static str,
    },
}

impl IntOrString {
    /// From a command-line argument: a number if it is one.
    pub fn from_argument(text: &str) -> Self {
        match text.parse() {
            Ok(number) => Self::Int(number),
            Err(_) => Self::String(text.to_owned()),
        }
    }

    /// The number, also if written as text; 0 for a name, as in Kubernetes.
    pub fn int_value(&self) -> i32 {
        match self {
            Self::Int(number) => *number,
            Self::String(text) => text.parse().unwrap_or(0),
        }
    }

    /// The number itself, or the percentage of `total`.
    pub fn scaled(&self, total: i64, round: Round) -> Result<i64, ScaleError> {
        let text = match self {
            Self::Int(number) => return Ok(i64::from(*number)),
            Self::String(text) => text,
        };
        let percent = text.strip_suffix('%').ok_or(ScaleError::NotAPercentage)?;
        let percent: i64 =
            percent
                .parse()
                .map_err(|error: std::num::ParseIntError| ScaleError::NotANumber {
                    text: text.clone(),
                    reason: match error.kind() {
                        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                        _ => "invalid syntax",
                    },
                })?;
        let exact = i128::from(percent) * i128::from(total);
        let whole = match round {
            Round::Down => exact.div_euclid(100),
            Round::Up => -(-exact).div_euclid(100),
        };
        Ok(i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX }))
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_scaled_as_kubernetes_does() {
        let check = |value: IntOrString, total: i64, down: i64, up: i64| {
            assert_eq!(value.scaled(total, Round::Down), Ok(down), "{value} of {total}");
            assert_eq!(value.scaled(total, Round::Up), Ok(up), "{value} of {total}");
        };
        check(3.into(), 10, 3, 3);
        check("25%".into(), 10, 2, 3);
        check("100%".into(), 7, 7, 7);
        check("0%".into(), 7, 0, 0);
        check("-25%".into(), 10, -3, -2);
        check("+50%".into(), 10, 5, 5);
        check("25%".into(), 0, 0, 0);
        check("9223372036854775807%".into(), i64::MAX, i64::MAX, i64::MAX);
    }

    #[test]
    fn what_cannot_be_scaled_is_named() {
        let check = |text: &str, message: &str| {
            let error = IntOrString::from(text).scaled(10, Round::Up).unwrap_err();
            assert_eq!(error.to_string(), message);
        };
        check(
            "http",
            "invalid value for IntOrString: invalid type: string is not a percentage",
        );
        check(
            "a%",
            "invalid value for IntOrString: invalid value \"a%\": strconv.Atoi: parsing \"a\": invalid syntax",
        );
        check(
            "99999999999999999999%",
            "invalid value for IntOrString: invalid value \"99999999999999999999%\": \
             strconv.Atoi: parsing \"99999999999999999999\": value out of range",
        );
    }

    #[test]
    fn json_keeps_the_difference() {
        for json in ["8080", "\"http\"", "\"8080\"", "-1"] {
            let value: IntOrString = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
        }
        for json in ["1.5", "true", "4294967296", "null"] {
            let error = serde_json::from_str::<IntOrString>(json).unwrap_err();
            assert_eq!(error.to_string(), "expected a 32-bit number or a text");
        }
    }

    #[test]
    fn arguments_are_numbers_where_they_can_be() {
        assert_eq!(IntOrString::from_argument("80"), IntOrString::Int(80));
        assert_eq!(IntOrString::from_argument("http"), "http".into());
        assert_eq!(IntOrString::from("80").int_value(), 80);
        assert_eq!(IntOrString::from("http").int_value(), 0);
    }
}
