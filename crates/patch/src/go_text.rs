//! Values as Go's `%v` prints them: some of Kubernetes' error texts quote values this way.

use serde_json::Value;

/// `map[name:a ports:[80 81]]`; texts stand bare.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", join(items.iter().map(go_value))),
        Value::Object(fields) => {
            format!(
                "map[{}]",
                join(
                    fields
                        .iter()
                        .map(|(name, value)| format!("{name}:{}", go_value(value)))
                )
            )
        }
        scalar => scalar.to_string(),
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" ")
}
