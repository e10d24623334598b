//! Timestamps and durations: conversion and components.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use watchkeeper_meta::Time;
use watchkeeper_wire::values::Duration;

use super::{Evaluated, Function, no_overload};
use crate::error::EvalError;
use crate::value::Value;

const OF_TIMESTAMP: &[&str] = &["timestamp.() -> int", "timestamp.(string) -> int"];
const OF_BOTH: &[&str] = &[
    "timestamp.() -> int",
    "timestamp.(string) -> int",
    "duration.() -> int",
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("getFullYear", OF_TIMESTAMP, |v, _| {
        part(v, |at| i64::from(at.year()))
    }),
    Function::new("getMonth", OF_TIMESTAMP, |v, _| {
        part(v, |at| i64::from(at.month()) - 1)
    }),
    Function::new("getDate", OF_TIMESTAMP, |v, _| part(v, |at| i64::from(at.day()))),
    Function::new("getDayOfMonth", OF_TIMESTAMP, |v, _| {
        part(v, |at| i64::from(at.day()) - 1)
    }),
    Function::new("getDayOfYear", OF_TIMESTAMP, |v, _| {
        part(v, |at| i64::from(at.day_of_year()) - 1)
    }),
    Function::new("getDayOfWeek", OF_TIMESTAMP, |v, _| {
        part(v, |at| i64::from(at.weekday().to_sunday_zero_offset()))
    }),
    Function::new("getHours", OF_BOTH, |v, _| match &v[0] {
        Value::Duration(span) => Ok(Value::Int(span.as_hours())),
        _ => part(v, |at| i64::from(at.hour())),
    }),
    Function::new("getMinutes", OF_BOTH, |v, _| match &v[0] {
        Value::Duration(span) => Ok(Value::Int(span.as_mins())),
        _ => part(v, |at| i64::from(at.minute())),
    }),
    Function::new("getSeconds", OF_BOTH, |v, _| match &v[0] {
        Value::Duration(span) => Ok(Value::Int(span.as_secs())),
        _ => part(v, |at| i64::from(at.second())),
    }),
    Function::new("getMilliseconds", OF_BOTH, |v, _| match &v[0] {
        Value::Duration(span) => Ok(Value::Int(i64::from(span.subsec_millis()))),
        _ => part(v, |at| i64::from(at.millisecond())),
    }),
];

/// A component of a timestamp, in a time zone if one is given.
fn part<'a>(v: &[Value<'a>], of: fn(DateTime) -> i64) -> Evaluated<'a> {
    let Value::Timestamp(at) = &v[0] else {
        return no_overload();
    };
    let at = match v.get(1) {
        None => *at,
        Some(Value::String(name)) => {
            let at = TimeZone::UTC.to_timestamp(*at);
            let at = at.map_err(|_| EvalError::Overflow("timestamp"))?;
            zone(name)?.to_datetime(at)
        }
        Some(_) => return no_overload(),
    };
    Ok(Value::Int(of(at)))
}

/// A time zone by name, or by its offset from UTC: `-08:00`.
fn zone(name: &str) -> Result<TimeZone, EvalError> {
    let unknown = || EvalError::failed(format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else {
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i32 = hours
        .trim_start_matches(['-', '+'])
        .parse()
        .map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
    if hours > 24 || !(0..60).contains(&minutes) {
        return Err(unknown());
    }
    let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60));
    offset.map(TimeZone::fixed).map_err(|_| unknown())
}

pub(crate) fn parse_timestamp(text: &str) -> Result<DateTime, EvalError> {
    let refused = || EvalError::failed("type conversion error from 'string' to 'google.protobuf.Timestamp'");
    if !text.contains(['T', 't']) {
        return Err(refused());
    }
    let time: Time = text.parse().map_err(|_| refused())?;
    time.to_utc().ok_or_else(refused)
}

pub(crate) fn print_timestamp(at: DateTime) -> String {
    format!("{at}Z")
}

pub(crate) fn parse_duration(text: &str) -> Result<SignedDuration, EvalError> {
    let refused = || EvalError::failed("type conversion error from 'string' to 'google.protobuf.Duration'");
    let found: Duration = text.parse().map_err(|_| refused())?;
    Ok(SignedDuration::from_nanos(found.nanos))
}

/// Seconds with an optional fraction: `90.5s`.
pub(crate) fn print_duration(span: SignedDuration) -> String {
    let nanos = span.as_nanos();
    let (whole, rest) = (
        nanos.unsigned_abs() / 1_000_000_000,
        nanos.unsigned_abs() % 1_000_000_000,
    );
    let sign = if nanos < 0 { "-" } else { "" };
    match rest {
        0 => format!("{sign}{whole}s"),
        rest => {
            let fraction = format!("{rest:09}");
            format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
        }
    }
}

/// Whole seconds since 1970.
pub(crate) fn seconds(at: DateTime) -> i64 {
    let since = at.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    // Rounded down, for either sign.
    since.as_secs() - i64::from(since.subsec_nanos() < 0)
}
