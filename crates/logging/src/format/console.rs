//! Tab-separated columns for people: time, level, caller, message, and the values as JSON.

use super::{Formatter, Record, TimeStyle};

pub(super) fn line(record: &Record<'_>, formatter: &Formatter) -> String {
    let time = match &formatter.time {
        TimeStyle::Seconds => record.time.strftime("%Y-%m-%dT%H:%M:%S.%3f%z").to_string(),
        TimeStyle::Custom(format) => super::strftime(record.time, format),
    };
    let level = formatter.level(record.severity);
    let caller = format!("{}:{}", record.short_path(), record.line);
    let mut columns = vec![time, level.to_owned(), caller];
    if !record.logger.is_empty() {
        columns.push(record.logger.to_owned());
    }
    columns.push(record.message.to_owned());
    if !record.values.is_empty() {
        columns.push(values(record));
    }
    columns.join("\t")
}

fn values(record: &Record<'_>) -> String {
    let pairs: Vec<_> = record
        .values
        .iter()
        .map(|(key, value)| format!("{}: {}", serde_json::Value::from(*key), value.to_json()))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}
