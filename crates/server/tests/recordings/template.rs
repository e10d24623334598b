//! Requests with parts from earlier answers: `{{step/json/pointer}}`.

use std::collections::HashMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Earlier answers, by step.
pub(crate) type Seen = HashMap<String, Value>;

/// Fills a text that becomes part of a URL.
pub(crate) fn fill_path(text: &str, seen: &Seen) -> String {
    replace(text, |reference| {
        let value = printed(&look_up(reference, seen));
        utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string()
    })
}

/// Fills a value. `{"$from": step, "$set": {pointer: value}, "$unset": [pointer]}` is that step's answer, changed.
pub(crate) fn fill(value: &Value, seen: &Seen) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")) {
            Some(reference) if !reference.contains("{{") => look_up(reference, seen),
            _ => Value::String(replace(text, |reference| printed(&look_up(reference, seen)))),
        },
        Value::Array(items) => items.iter().map(|item| fill(item, seen)).collect(),
        Value::Object(members) => match members.get("$from").and_then(Value::as_str) {
            Some(step) => changed(look_up(step, seen), value, seen),
            None => members
                .iter()
                .map(|(name, value)| (name.clone(), fill(value, seen)))
                .collect(),
        },
        other => other.clone(),
    }
}

fn changed(base: Value, change: &Value, seen: &Seen) -> Value {
    let mut base = if base.is_object() {
        base
    } else {
        Value::Object(Default::default())
    };
    for pointer in change["$unset"].as_array().into_iter().flatten() {
        remove(&mut base, pointer.as_str().unwrap_or_default());
    }
    for (pointer, value) in change["$set"].as_object().into_iter().flatten() {
        set(&mut base, pointer, fill(value, seen));
    }
    base
}

fn look_up(reference: &str, seen: &Seen) -> Value {
    let (step, pointer) = reference.split_once('/').unwrap_or((reference, ""));
    let answer = seen.get(step);
    let pointer = if pointer.is_empty() {
        String::new()
    } else {
        format!("/{pointer}")
    };
    answer
        .and_then(|answer| answer.pointer(&pointer))
        .cloned()
        .unwrap_or_else(|| "MISSING".into())
}

fn replace(text: &str, value: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, reference, after)) = next_reference(rest) {
        out.push_str(before);
        out.push_str(&value(reference));
        rest = after;
    }
    out + rest
}

fn next_reference(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (reference, after) = rest.split_once("}}")?;
    Some((before, reference, after))
}

fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, last)) = split(value, pointer) else {
        return;
    };
    match parent {
        Value::Object(members) => drop(members.remove(&last)),
        Value::Array(items) => {
            if let Some(index) = last.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

fn set(value: &mut Value, pointer: &str, new: Value) {
    let Some((parent, last)) = split(value, pointer) else {
        return;
    };
    match parent {
        Value::Array(items) if last == "-" => items.push(new),
        Value::Array(items) => items[last.parse::<usize>().expect("an index")] = new,
        Value::Object(_) | Value::Null => parent[last] = new,
        _ => {}
    }
}

/// The parent of a pointer's value, created if it is missing, and the last segment of the pointer.
fn split<'a>(value: &'a mut Value, pointer: &str) -> Option<(&'a mut Value, String)> {
    let parts: Vec<String> = pointer
        .split('/')
        .skip(1)
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect();
    let (last, path) = parts.split_last()?;
    let mut current = value;
    for part in path {
        current = match current {
            Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?)?,
            Value::Object(_) | Value::Null => &mut current[part.as_str()],
            _ => return None,
        };
    }
    Some((current, last.clone()))
}
