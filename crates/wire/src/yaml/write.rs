//! Writes values as YAML, formatted as kubectl does.
//!
//! The layout (folding, quoting, indentation) is that of `libyaml-safer`'s emitter, the same as kubectl's. This
//! module decides which texts need quotes because they would be read as a number, a boolean or a date.

use std::cmp::Ordering;

use libyaml_safer::{Emitter, Encoding, Event, MappingStyle, ScalarStyle, SequenceStyle};
use serde_json::{Map, Number, Value};

use super::{float, scalar};

/// Prints one document.
///
/// ```
/// let pod = serde_json::json!({"metadata": {"name": "a", "labels": {"on": "yes"}}, "kind": "Pod"});
/// let text = watchkeeper_wire::yaml::to_string(&pod);
/// assert_eq!(text, "kind: Pod\nmetadata:\n  labels:\n    \"on\": \"yes\"\n  name: a\n");
/// ```
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::new();
    if emit_document(value, &mut out).is_err() {
        // Writing to memory does not fail, and the events are always in order.
        out.clear();
    }
    escape_wide(String::from_utf8(out).unwrap_or_default())
}

/// Prints several documents with `---` between them.
pub fn documents_to_string<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    let texts: Vec<_> = values.into_iter().map(to_string).collect();
    texts.join("---\n")
}

fn emit_document(value: &Value, out: &mut Vec<u8>) -> Result<(), libyaml_safer::Error> {
    let mut emitter = Emitter::new();
    emitter.set_output_string(out);
    emitter.set_unicode(true);
    emitter.emit(Event::stream_start(Encoding::Utf8))?;
    emitter.emit(Event::document_start(None, &[], true))?;
    emit_value(&mut emitter, value)?;
    emitter.emit(Event::document_end(true))?;
    emitter.flush()
}

fn emit_value(emitter: &mut Emitter<'_>, value: &Value) -> Result<(), libyaml_safer::Error> {
    match value {
        Value::Null => emit_plain(emitter, "null"),
        Value::Bool(value) => emit_plain(emitter, if *value { "true" } else { "false" }),
        Value::Number(number) => emit_plain(emitter, &number_text(number)),
        Value::String(text) => emit_text(emitter, text),
        Value::Array(items) => {
            emitter.emit(Event::sequence_start(None, None, true, SequenceStyle::Block))?;
            for item in items {
                emit_value(emitter, item)?;
            }
            emitter.emit(Event::sequence_end())
        }
        Value::Object(map) => emit_map(emitter, map),
    }
}

fn emit_map(emitter: &mut Emitter<'_>, map: &Map<String, Value>) -> Result<(), libyaml_safer::Error> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|(left, _), (right, _)| natural_order(left, right));
    emitter.emit(Event::mapping_start(None, None, true, MappingStyle::Block))?;
    for (key, value) in entries {
        emit_text(emitter, key)?;
        emit_value(emitter, value)?;
    }
    emitter.emit(Event::mapping_end())
}

/// Escapes characters above 16 bits, such as emoji, as kubectl does; the emitter prints them as they are.
///
/// Such characters are always in double quotes: [`emit_text`] asks for them.
fn escape_wide(text: String) -> String {
    if !text.contains(is_wide) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_wide(c) {
            true => out.push_str(&format!("\\U{:08X}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

fn is_wide(c: char) -> bool {
    c > '\u{ffff}'
}

fn emit_text(emitter: &mut Emitter<'_>, text: &str) -> Result<(), libyaml_safer::Error> {
    let style = match text {
        _ if text.contains(is_wide) => ScalarStyle::DoubleQuoted,
        _ if text.contains('\n') => ScalarStyle::Literal,
        _ if scalar::needs_quotes(text) => ScalarStyle::DoubleQuoted,
        _ => ScalarStyle::Plain,
    };
    emitter.emit(Event::scalar(None, None, text, true, true, style))
}

fn emit_plain(emitter: &mut Emitter<'_>, text: &str) -> Result<(), libyaml_safer::Error> {
    emitter.emit(Event::scalar(None, None, text, true, true, ScalarStyle::Plain))
}

fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => float::value_text(value),
        _ => number.to_string(),
    }
}

/// kubectl's order of keys: numbers within them by value (`a2` before `a10`), letters after everything else.
fn natural_order(left: &str, right: &str) -> Ordering {
    let mut common = 0;
    for (a, b) in left.chars().zip(right.chars()) {
        if a != b {
            return order_at(left, right, common, a, b);
        }
        common += a.len_utf8();
    }
    left.len().cmp(&right.len())
}

/// The order of two texts that first differ at byte `at`, with `a` in one and `b` in the other.
fn order_at(left: &str, right: &str, at: usize, a: char, b: char) -> Ordering {
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => return a.cmp(&b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero within a number counts; a leading zero does not.
    let within_number = left[..at]
        .bytes()
        .rev()
        .take_while(u8::is_ascii_digit)
        .any(|digit| digit != b'0');
    let lead = if (a == '0' || b == '0') && within_number {
        "1"
    } else {
        ""
    };
    let (a_digits, b_digits) = (digits(&left[at..]), digits(&right[at..]));
    let value = |digits: &str| {
        let text = format!("{lead}{digits}");
        let text = text.trim_start_matches('0').to_owned();
        (text.len(), text)
    };
    value(a_digits)
        .cmp(&value(b_digits))
        .then(a_digits.len().cmp(&b_digits.len()))
        .then(a.cmp(&b))
}

fn digits(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}
