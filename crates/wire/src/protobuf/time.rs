//! Times in protobuf, `{1: seconds, 2: nanoseconds}`, and their text in JSON.
//!
//! An empty message is Go's zero time, which JSON shows as null. So is the first second of the year 1, the value of
//! Go's zero time.

use super::primitive::{ProtobufError, ProtobufErrorKind, Reader, WireType, put_tag, put_varint};
use crate::utf8;
use watchkeeper_meta::Time;

/// 0001-01-01T00:00:00Z, Go's zero time.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// 9999-12-31T23:59:59Z, the last second RFC 3339 can express.
const LAST_SECONDS: i64 = 253_402_300_799;

/// The first second of the year 0.
const FIRST_SECONDS: i64 = -62_167_219_200;

/// Longest text: `2006-01-02T15:04:05.000000Z`.
pub(super) const TEXT_BYTES: usize = 27;

/// Reads a time; `None` for the zero time.
pub(super) fn read(mut reader: Reader<'_>) -> Result<Option<Time>, ProtobufError> {
    if let Some(seconds) = usual_seconds(reader.rest()) {
        return Ok(Some(Time::from_seconds(seconds)));
    }
    if reader.is_empty() {
        return Ok(None);
    }
    let start = reader.offset();
    let mut time = Time::default();
    while let Some((number, wire_type)) = reader.tag()? {
        match (number, wire_type) {
            (1, WireType::Varint) => time.seconds = reader.varint()? as i64,
            (2, WireType::Varint) => time.nanos = reader.varint()? as i32,
            (1 | 2, _) => return Err(reader.error(ProtobufErrorKind::UnexpectedWireType { number })),
            _ => reader.skip(wire_type)?,
        }
    }
    if !(FIRST_SECONDS..=LAST_SECONDS).contains(&time.seconds) || !(0..1_000_000_000).contains(&time.nanos) {
        return Err(ProtobufError {
            offset: start,
            kind: ProtobufErrorKind::Other(format!("{}s {}ns is not a time", time.seconds, time.nanos)),
        });
    }
    Ok((time.seconds != ZERO_SECONDS || time.nanos / 1000 != 0).then_some(time))
}

/// The seconds of a time in whole seconds from 1978 to 2106, encoded in eight bytes: nearly every time.
#[inline]
fn usual_seconds(message: &[u8]) -> Option<i64> {
    const SECONDS: u8 = 1 << 3;
    const NANOS: u8 = 2 << 3;
    let [SECONDS, a, b, c, d, e @ 1..0x10, NANOS, 0] = *message else {
        return None;
    };
    let low = [a, b, c, d];
    let is_usual = low.iter().all(|byte| *byte >= 0x80);
    let value = low
        .iter()
        .rev()
        .fold(i64::from(e), |value, byte| value << 7 | i64::from(byte & 0x7f));
    is_usual.then_some(value)
}

/// True if the message is the zero time. Its negative seconds take ten bytes after their tag, so a shorter message is
/// another time, or invalid.
pub(super) fn is_zero(reader: Reader<'_>) -> Result<bool, ProtobufError> {
    match reader.rest().len() {
        0 => Ok(true),
        1..=10 => Ok(false),
        _ => Ok(read(reader)?.is_none()),
    }
}

/// Appends the body of a time's message. The zero time has none.
pub(super) fn write(out: &mut Vec<u8>, time: Time) {
    if time.seconds == ZERO_SECONDS && time.nanos == 0 {
        return;
    }
    put_tag(out, 1, WireType::Varint);
    put_varint(out, time.seconds as u64);
    put_tag(out, 2, WireType::Varint);
    put_varint(out, time.nanos as u64);
}

/// RFC 3339 text in whole seconds, or in microseconds.
pub(super) struct TimeText {
    bytes: [u8; TEXT_BYTES],
    length: usize,
}

impl TimeText {
    pub(super) fn seconds(time: Time) -> Self {
        let mut text = Self::date_and_time(time);
        text.bytes[19] = b'Z';
        text.length = 20;
        text
    }

    pub(super) fn micros(time: Time) -> Self {
        let mut text = Self::date_and_time(time);
        text.bytes[19] = b'.';
        digits(&mut text.bytes[20..26], time.nanos as u32 / 1000);
        text.bytes[26] = b'Z';
        text.length = 27;
        text
    }

    pub(super) fn as_str(&self) -> &str {
        utf8::check(&self.bytes[..self.length]).expect("digits are ASCII")
    }

    /// `2006-01-02T15:04:05`. A calendar crate prints the same ten times slower, and a pod has ten times.
    fn date_and_time(time: Time) -> Self {
        let mut bytes = *b"0000-00-00T00:00:00\0\0\0\0\0\0\0\0";
        let (days, second) = (
            time.seconds.div_euclid(86_400),
            time.seconds.rem_euclid(86_400) as u32,
        );
        let (year, month, day) = civil(days);
        digits(&mut bytes[0..4], year);
        digits(&mut bytes[5..7], month);
        digits(&mut bytes[8..10], day);
        digits(&mut bytes[11..13], second / 3600);
        digits(&mut bytes[14..16], second / 60 % 60);
        digits(&mut bytes[17..19], second % 60);
        Self { bytes, length: 19 }
    }
}

/// Fills `out`, of even length, with decimal digits.
#[inline(always)]
fn digits(out: &mut [u8], mut value: u32) {
    for pair in out.as_chunks_mut::<2>().0.iter_mut().rev() {
        let two = value % 100;
        *pair = [b'0' + (two / 10) as u8, b'0' + (two % 10) as u8];
        value /= 100;
    }
}

/// Year, month and day of a day counted from 1970-01-01, for years 0 to 9999.
///
/// Years are counted from March, so that the leap day is the last of its year; 400 years have 146,097 days.
fn civil(days: i64) -> (u32, u32, u32) {
    // Days since 0000-03-01, plus one 400-year cycle, so that the first two months of the year 0 are not negative.
    let shifted = days + 719_468 + 146_097;
    let (cycle, day_of_cycle) = (shifted / 146_097 - 1, (shifted % 146_097) as u32);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (
        (cycle * 400 + i64::from(year_of_cycle + next_year)) as u32,
        month,
        day,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_are_those_of_the_calendar(seconds in FIRST_SECONDS..=LAST_SECONDS, nanos in 0..1_000_000_000i32) {
            let time = Time { seconds, nanos };
            let text = TimeText::seconds(time);
            prop_assert_eq!(text.as_str(), time.to_rfc3339());
            let text = TimeText::micros(time);
            prop_assert_eq!(text.as_str(), time.to_rfc3339_micro());
        }

        #[test]
        fn times_are_read_as_they_were_written(seconds in -1i64 << 33..1 << 33, nanos in 0..3i32) {
            let time = Time { seconds, nanos };
            let mut message = Vec::new();
            write(&mut message, time);
            prop_assert_eq!(read(Reader::new(&message)).unwrap(), Some(time));
        }
    }

    #[test]
    fn the_ends_of_the_calendar_print() {
        let check = |seconds, text: &str| {
            assert_eq!(TimeText::seconds(Time::from_seconds(seconds)).as_str(), text);
        };
        check(FIRST_SECONDS, "0000-01-01T00:00:00Z");
        check(ZERO_SECONDS, "0001-01-01T00:00:00Z");
        check(-1, "1969-12-31T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(LAST_SECONDS, "9999-12-31T23:59:59Z");
    }

    #[test]
    fn zero_times_are_none() {
        let mut zero = Vec::new();
        write(&mut zero, Time::from_seconds(ZERO_SECONDS));
        assert!(zero.is_empty());
        assert_eq!(read(Reader::new(&zero)).unwrap(), None);
        let mut epoch = Vec::new();
        write(&mut epoch, Time::from_seconds(0));
        assert_eq!(read(Reader::new(&epoch)).unwrap(), Some(Time::from_seconds(0)));
        let mut far = Vec::new();
        write(&mut far, Time::from_seconds(i64::MAX));
        assert!(read(Reader::new(&far)).is_err());
    }
}
