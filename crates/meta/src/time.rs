//! A point in time as Kubernetes writes it: seconds and nanoseconds since 1970, RFC 3339 as text.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

/// A point in time. In protobuf it is seconds and nanoseconds; in JSON, RFC 3339 text in UTC.
///
/// The two numbers are kept, not a calendar: most times are only compared or passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970-01-01T00:00:00Z; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: i32,
}

/// Text that is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an RFC 3339 time: {reason}")]
pub struct ParseTimeError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Time {
    /// A whole second.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// As a calendar crate has it; `None` beyond the years it can name.
    pub fn to_timestamp(self) -> Option<Timestamp> {
        Timestamp::new(self.seconds, self.nanos).ok()
    }

    /// `metav1.Time` in JSON: whole seconds, `2006-01-02T15:04:05Z`.
    pub fn to_rfc3339(self) -> String {
        self.format("%Y-%m-%dT%H:%M:%SZ")
    }

    /// `metav1.MicroTime` in JSON: six digits of a second, `2006-01-02T15:04:05.000000Z`.
    pub fn to_rfc3339_micro(self) -> String {
        self.format("%Y-%m-%dT%H:%M:%S.%6fZ")
    }

    fn format(self, format: &str) -> String {
        match self.to_timestamp() {
            Some(timestamp) => timestamp.strftime(format).to_string(),
            // Outside the years -9999 to 9999 no RFC 3339 text exists; the number is the honest rest.
            None => format!("@{}", self.seconds),
        }
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Self {
            seconds: timestamp.as_second(),
            nanos: timestamp.subsec_nanosecond(),
        }
    }
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<Timestamp>() {
            Ok(timestamp) => Ok(timestamp.into()),
            Err(error) => Err(ParseTimeError {
                text: text.to_owned(),
                reason: error.to_string(),
            }),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_and_print() {
        let time: Time = "2008-01-01T01:01:01Z".parse().unwrap();
        assert_eq!(time, Time::from_seconds(1_199_149_261));
        assert_eq!(time.to_rfc3339(), "2008-01-01T01:01:01Z");
        let zoned: Time = "2008-01-01T02:01:01.5+01:00".parse().unwrap();
        assert_eq!(zoned.to_rfc3339_micro(), "2008-01-01T01:01:01.500000Z");
        assert!("yesterday".parse::<Time>().is_err());
    }
}
