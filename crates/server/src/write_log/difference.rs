//! The field differences of two states of an object.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A changed field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// The path: `spec.replicas`, `spec.containers[0].image`, `metadata.labels["app.kubernetes.io/name"]`.
    pub path: String,
    /// Its value before; `None` if there was none.
    pub before: Option<Value>,
    /// Its value now; `None` if there is none.
    pub after: Option<Value>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        write!(
            f,
            "{} {} → {}",
            self.path,
            shown(&self.before),
            shown(&self.after)
        )
    }
}

/// The fields that differ, in the order of the new state; removed ones are last in their object.
pub(super) fn between(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let gone = before.keys().filter(|name| !after.contains_key(*name));
            for name in after.keys().chain(gone) {
                compare(&member(path, name), before.get(name), after.get(name), found);
            }
        }
        // A list of another length is shown as a whole.
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), Some(before), Some(after), found);
            }
        }
        (before, after) => found.push(FieldChange {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

fn member(path: &str, name: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
    match name.chars().all(is_plain) && !name.is_empty() {
        true if path.is_empty() => name.to_owned(),
        true => format!("{path}.{name}"),
        false => format!("{path}[{name:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(before: Value, after: Value, expected: &[&str]) {
        let found: Vec<_> = between(&before, &after)
            .iter()
            .map(FieldChange::to_string)
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn fields_are_named_and_shown() {
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(
            json!({"spec": {"replicas": 1, "paused": true}}),
            json!({"spec": {"replicas": 2, "mode": "x"}}),
            &[
                "spec.mode - → \"x\"",
                "spec.replicas 1 → 2",
                "spec.paused true → -",
            ],
        );
        check(
            json!({"c": [{"image": "a"}, {"image": "b"}], "l": [1]}),
            json!({"c": [{"image": "a"}, {"image": "c"}], "l": [1, 2]}),
            &["c[1].image \"b\" → \"c\"", "l [1] → [1,2]"],
        );
        let label = "app.kubernetes.io/name";
        check(
            json!({"labels": {label: "a"}}),
            json!({"labels": {label: "b"}}),
            &["labels[\"app.kubernetes.io/name\"] \"a\" → \"b\""],
        );
    }
}
