//! Values: text is quoted, numbers and structures are bare.

use std::cell::Cell;
use std::error::Error;
use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};

use crate::quote::push_quoted;

/// A value, ready to be printed in any format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text: `name="web"`.
    Text(String),
    /// Numbers, booleans, structures: `count=3`, `range={from: 1}`.
    Bare(String),
}

impl Value {
    /// Appends `=value` in klog's format: on one line if possible, between `<` and `>` if it has several lines.
    pub(crate) fn push_klog(&self, out: &mut String) {
        match self {
            Self::Text(text) | Self::Bare(text) if text.contains('\n') => push_lines(out, text),
            Self::Text(text) => {
                out.push('=');
                push_quoted(out, text);
            }
            Self::Bare(text) => {
                out.push('=');
                out.push_str(text);
            }
        }
    }

    /// As JSON: anything but a number or a boolean is text.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => serde_json::Value::from(text.as_str()),
            Self::Bare(text) => {
                let parsed = serde_json::from_str::<serde_json::Value>(text).ok();
                let scalar = parsed.filter(|value| value.is_number() || value.is_boolean());
                scalar.unwrap_or_else(|| serde_json::Value::from(text.as_str()))
            }
        }
    }
}

/// A tab before each line distinguishes them from lines of the log, a blank before the end from these.
fn push_lines(out: &mut String, text: &str) {
    out.push_str("=<\n");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\t');
        out.push_str(line);
        out.push('\n');
    }
    out.push_str(" >");
}

/// Text that is printed without quotes, as klog prints named string types: `status=Running`.
///
/// See [`bare`].
pub struct Bare<T>(T);

/// Removes the quotes of a value: `phase = ?bare(&phase)`.
pub fn bare<T: fmt::Display>(value: T) -> Bare<T> {
    Bare(value)
}

thread_local! {
    /// Set while a [`Bare`] is printed: a `tracing` value cannot carry the information otherwise.
    static PRINTED_BARE: Cell<bool> = const { Cell::new(false) };
}

impl<T: fmt::Display> fmt::Debug for Bare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PRINTED_BARE.set(true);
        self.0.fmt(f)
    }
}

/// The fields of an event or a span, by purpose.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) message: String,
    /// True for a message of [`fatal!`](crate::fatal).
    pub(crate) fatal: bool,
    /// The logger name a span gives its messages.
    pub(crate) logger: Option<String>,
    /// The error comes first, under klog's key.
    pub(crate) values: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Sets a value; an existing key is replaced.
    fn set(&mut self, field: &Field, value: Value) {
        match field.name() {
            "error" | "err" => self.values.insert(0, ("err", value)),
            name => match self.values.iter_mut().find(|(key, _)| *key == name) {
                Some((_, old)) => *old = value,
                None => self.values.push((name, value)),
            },
        }
    }

    fn set_number(&mut self, field: &Field, number: impl ToString) {
        self.set(field, Value::Bare(number.to_string()));
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        match field.name() {
            // The level of a message is not printed.
            "v" => {}
            _ => self.set_number(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "v" => {}
            _ => self.set_number(field, value),
        }
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.set_number(field, value);
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.set_number(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set_number(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "fatal" => self.fatal = value,
            _ => self.set_number(field, value),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "logger" => self.logger = Some(value.to_owned()),
            _ => self.set(field, Value::Text(value.to_owned())),
        }
    }

    /// An error is printed with its chain of sources.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        self.set(field, Value::Text(text));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        PRINTED_BARE.set(false);
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "logger" => self.logger = Some(text),
            _ if PRINTED_BARE.get() => self.set(field, Value::Bare(text)),
            _ => self.set(field, classify(text)),
        }
    }
}

/// `%value` and `?value` are indistinguishable here. Text in Rust's debug notation stays bare; the rest is quoted.
fn classify(text: String) -> Value {
    let quoted = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    let rest = text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let structure = match rest.as_bytes() {
        [b'(', .., b')'] | [b'[', .., b']'] | [b'{', .., b'}'] => true,
        [b' ', b'{', .., b'}'] => rest.len() < text.len(),
        _ => false,
    };
    match quoted || structure {
        true => Value::Bare(text),
        false => Value::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_structure() {
        let check = |text: &str, is_text: bool| {
            assert_eq!(
                matches!(classify(text.to_owned()), Value::Text(_)),
                is_text,
                "{text}"
            );
        };
        for text in [
            "GET",
            "1s",
            "",
            "kube-system/coredns",
            "not found (404)",
            "https://a/[b]",
            "a {b",
        ] {
            check(text, true);
        }
        for text in [
            "\"a\"",
            "Some(1)",
            "Pod { name: 1 }",
            "[1, 2]",
            "{\"a\": 1}",
            "a::B { c: 1 }",
            "()",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn several_lines_are_fenced() {
        let check = |text: &str, printed: &str| {
            let mut out = String::from("key");
            Value::Text(text.to_owned()).push_klog(&mut out);
            assert_eq!(out, printed);
        };
        check("one", "key=\"one\"");
        check("one\ntwo", "key=<\n\tone\n\ttwo\n >");
        check("one\n\ntwo\n", "key=<\n\tone\n\t\n\ttwo\n >");
    }

    #[test]
    fn json_has_numbers_and_text() {
        let check = |value: Value, json: &str| assert_eq!(value.to_json().to_string(), json);
        check(Value::Text("5".to_owned()), "\"5\"");
        check(Value::Bare("5".to_owned()), "5");
        check(Value::Bare("true".to_owned()), "true");
        check(Value::Bare("[1]".to_owned()), "\"[1]\"");
        check(Value::Bare("Running".to_owned()), "\"Running\"");
    }
}
