//! A point in time as Kubernetes writes it: seconds and nanoseconds since 1970, RFC 3339 as text.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::{SignedDuration, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A point in time. In protobuf it is seconds and nanoseconds; in JSON, RFC 3339 text in UTC.
///
/// It is not converted to a calendar: most times are only compared or copied.
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
    /// The text given.
    pub text: String,
    /// The reason it is invalid.
    pub reason: String,
}

impl Time {
    /// A whole second.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// Parses exactly the form [`to_rfc3339`](Self::to_rfc3339) writes, which is how servers write times; `None` for
    /// any other text. Parsing all of RFC 3339 costs six times as much, for every object of a list.
    pub fn from_rfc3339_seconds(text: &[u8]) -> Option<Self> {
        let &[
            c,
            e,
            n,
            t,
            b'-',
            m,
            o,
            b'-',
            d,
            a,
            b'T',
            h,
            r,
            b':',
            i,
            u,
            b':',
            s,
            x,
            b'Z',
        ] = text
        else {
            return None;
        };
        let (century, year) = (two_digits(c, e)?, two_digits(n, t)?);
        let (month, day) = (two_digits(m, o)?, two_digits(d, a)?);
        let (hour, minute, second) = (two_digits(h, r)?, two_digits(i, u)?, two_digits(s, x)?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_since_1970(century * 100 + year, month, day)?;
        Some(Self::from_seconds(
            days * 86_400 + hour * 3600 + minute * 60 + second,
        ))
    }

    /// As a calendar type; `None` outside its range of years.
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
        match self.to_utc() {
            Some(date) => date.strftime(format).to_string(),
            // RFC 3339 has no text for years outside -9999 to 9999.
            None => format!("@{}", self.seconds),
        }
    }

    /// Date and time in UTC. A [`Timestamp`] must have a date in every time zone, so it ends a day before the year
    /// 9999 does. The last second of that year is a common way to write "never".
    pub fn to_utc(self) -> Option<DateTime> {
        let nanos = SignedDuration::from_nanos(i64::from(self.nanos));
        let since = SignedDuration::from_secs(self.seconds).checked_add(nanos)?;
        EPOCH.checked_add(since).ok()
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

const NANOS_PER_SECOND: i128 = 1_000_000_000;

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let nanos = match time.duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        Self {
            seconds: nanos.div_euclid(NANOS_PER_SECOND) as i64,
            nanos: nanos.rem_euclid(NANOS_PER_SECOND) as i32,
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let seconds = Duration::from_secs(time.seconds.unsigned_abs());
        let whole = match time.seconds < 0 {
            true => UNIX_EPOCH - seconds,
            false => UNIX_EPOCH + seconds,
        };
        whole + Duration::from_nanos(u64::from(time.nanos.unsigned_abs()))
    }
}

impl FromStr for Time {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(time) = Self::from_rfc3339_seconds(text.as_bytes()) {
            return Ok(time);
        }
        match text.parse::<Timestamp>() {
            Ok(timestamp) => Ok(timestamp.into()),
            Err(error) => in_last_days(text).ok_or_else(|| ParseTimeError {
                text: text.to_owned(),
                reason: error.to_string(),
            }),
        }
    }
}

/// Parses a time of the last days of the year 9999, which [`Timestamp`] cannot represent.
fn in_last_days(text: &str) -> Option<Time> {
    let pieces = Pieces::parse(text)
        .ok()
        .filter(|_| text.starts_with("9999-12-3"))?;
    let date = pieces.date().to_datetime(pieces.time()?);
    let since = date.duration_since(EPOCH) - SignedDuration::from(pieces.to_numeric_offset()?);
    let time = Time {
        seconds: since.as_secs(),
        nanos: since.subsec_nanos(),
    };
    time.to_utc().map(|_| time)
}

/// RFC 3339 text, in whole seconds.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "date-time"})
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens * 10 + ones))
}

/// Days since 1970-01-01 in the Gregorian calendar; `None` for a date that does not exist.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    const DAYS_BEFORE: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    let index = usize::try_from(month - 1).ok()?;
    let (before, after) = (*DAYS_BEFORE.get(index)?, *DAYS_BEFORE.get(index + 1)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let leap_february = is_leap && month == 2;
    if day < 1 || day > after - before + i64::from(leap_february) {
        return None;
    }
    // The leap day of this year counts from March on; those of earlier years always count.
    let past = year - 1;
    let leap_days = past / 4 - past / 100 + past / 400 + i64::from(is_leap && month > 2);
    const DAYS_TO_1970: i64 = 719_162;
    (year > 0).then(|| past * 365 + leap_days + before + day - 1 - DAYS_TO_1970)
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

    #[test]
    fn the_systems_time_comes_and_goes() {
        for text in [
            "2008-01-01T01:01:01.25Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00Z",
        ] {
            let time: Time = text.parse().unwrap();
            assert_eq!(Time::from(SystemTime::from(time)), time, "{text}");
        }
        let second_before = UNIX_EPOCH - Duration::from_millis(250);
        assert_eq!(
            Time::from(second_before).to_rfc3339_micro(),
            "1969-12-31T23:59:59.750000Z"
        );
    }

    #[test]
    fn time_ends_with_the_year_9999() {
        let check = |text: &str, printed: &str| {
            let time = text.parse::<Time>().map(Time::to_rfc3339_micro);
            assert_eq!(time.as_deref(), Ok(printed), "{text}");
        };
        check("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000Z");
        check("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z");
        check("9999-12-31T23:59:59.5+01:00", "9999-12-31T22:59:59.500000Z");
        check("0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00.500000Z");
        assert!("9999-12-31T23:59:59-01:00".parse::<Time>().is_err());
        assert_eq!(
            Time::from_seconds(i64::MAX).to_rfc3339(),
            format!("@{}", i64::MAX)
        );
    }

    #[test]
    fn days_that_no_month_has_are_no_times() {
        for day in [
            "2026-02-29",
            "2026-00-01",
            "2026-13-01",
            "2026-04-31",
            "2026-01-00",
            "1900-02-29",
        ] {
            assert!(format!("{day}T00:00:00Z").parse::<Time>().is_err(), "{day}");
        }
        assert_eq!(Time::from_rfc3339_seconds(b"0000-12-31T00:00:00Z"), None);
        assert!("2000-02-29T23:59:59Z".parse::<Time>().is_ok());
    }

    proptest::proptest! {
        #[test]
        fn whole_seconds_are_read_as_the_calendar_has_them(seconds in -62_135_596_800i64..253_402_207_200) {
            let text = Time::from_seconds(seconds).to_rfc3339();
            proptest::prop_assert_eq!(Time::from_rfc3339_seconds(text.as_bytes()), Some(Time::from_seconds(seconds)));
        }

        #[test]
        fn the_calendar_agrees_on_what_is_a_time(text in "[0-2][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]Z") {
            let calendar = text.parse::<Timestamp>().map(Time::from);
            if let Some(time) = Time::from_rfc3339_seconds(text.as_bytes()) {
                proptest::prop_assert_eq!(Ok(time), calendar.map_err(|error| error.to_string()));
            } else if let Ok(time) = calendar {
                // Leap seconds, and the year before the first, are left to it.
                proptest::prop_assert!(text.ends_with(":60Z") || time.seconds < -62_135_596_800, "{}", text);
            }
        }
    }
}
