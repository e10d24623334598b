//! One JSON object per line: `level`, `ts`, `caller`, `msg`, then the values in order.

use super::{Formatter, Record, TimeStyle};

pub(super) fn line(record: &Record<'_>, formatter: &Formatter) -> String {
    let mut out = String::with_capacity(160);
    out.push('{');
    push(&mut out, "level", &formatter.level(record.severity).into());
    push(&mut out, "ts", &time(record, &formatter.time));
    push(
        &mut out,
        "caller",
        &format!("{}:{}", record.short_path(), record.line).into(),
    );
    if !record.logger.is_empty() {
        push(&mut out, "logger", &record.logger.into());
    }
    push(&mut out, "msg", &record.message.into());
    for (key, value) in record.values {
        push(&mut out, key, &value.to_json());
    }
    out.push('}');
    out
}

fn push(out: &mut String, key: &str, value: &serde_json::Value) {
    if out.len() > 1 {
        out.push(',');
    }
    out.push_str(&format!("{}:{value}", serde_json::Value::from(key)));
}

fn time(record: &Record<'_>, style: &TimeStyle) -> serde_json::Value {
    match style {
        // Microseconds, which a float represents exactly for centuries.
        TimeStyle::Seconds => (record.time.timestamp().as_microsecond() as f64 / 1e6).into(),
        TimeStyle::Custom(format) => super::strftime(record.time, format).into(),
    }
}
