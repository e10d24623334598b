//! The time, count and source of Events, as commands print them.

use serde_json::Value;
use watchkeeper_meta::Time;

use crate::age;

/// The time of the last occurrence. Events of both API groups have it in different places.
pub(crate) fn time_of(event: &Value) -> Option<Time> {
    let series = &event["series"]["lastObservedTime"];
    let times = [
        series,
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["firstTimestamp"],
    ];
    times.into_iter().find_map(parse)
}

/// `5s`, or `5s (x3 over 2m)` if it happened more than once.
pub(crate) fn age_of(event: &Value) -> String {
    let now = age::now();
    let last = age::since(time_of(event), now);
    let count = event["series"]["count"]
        .as_i64()
        .or(event["count"].as_i64())
        .unwrap_or(1);
    let first = parse(&event["firstTimestamp"]).or_else(|| parse(&event["eventTime"]));
    match count > 1 {
        true => format!("{last} (x{count} over {})", age::since(first, now)),
        false => last,
    }
}

/// The component that reports it.
pub(crate) fn source(event: &Value) -> String {
    let texts = [&event["source"]["component"], &event["reportingComponent"]];
    let mut texts = texts
        .into_iter()
        .filter_map(Value::as_str)
        .filter(|text| !text.is_empty());
    texts.next().unwrap_or_default().to_owned()
}

fn parse(value: &Value) -> Option<Time> {
    value.as_str()?.parse().ok()
}
