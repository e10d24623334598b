//! The printer columns of a definition, and their cells.

use serde_json::{Value, json};
use watchkeeper_meta::Time;

use super::json_path::JsonPath;
use crate::table::human::age;

/// A column of a custom kind's Table.
#[derive(Debug)]
pub(crate) struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `date`.
    pub kind: String,
    /// The format for clients.
    pub format: String,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
    /// The description in the definition.
    pub description: Option<String>,
    path: JsonPath,
}

impl Column {
    /// A column of a definition.
    pub(crate) fn read(stated: &Value) -> Option<Self> {
        let text = |name: &str| stated[name].as_str().unwrap_or_default().to_owned();
        let description = match text("description") {
            text if text.is_empty() => format!(
                "Custom resource definition column (in JSONPath format): {}",
                stated["jsonPath"].as_str().unwrap_or_default()
            ),
            text => text,
        };
        Some(Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            priority: stated["priority"].as_i64().unwrap_or_default() as i32,
            description: Some(description),
            path: JsonPath::parse(stated["jsonPath"].as_str()?)?,
        })
    }

    /// The default column of a kind without columns.
    pub(crate) fn age() -> Self {
        Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            priority: 0,
            description: None,
            path: JsonPath::parse(".metadata.creationTimestamp").unwrap_or_else(|| unreachable!("a path")),
        }
    }

    /// The cell of an object.
    pub(crate) fn cell(&self, object: &Value, now: Time) -> Value {
        let found = self.path.find(object);
        let Some(first) = found.first() else {
            return Value::Null;
        };
        match &*self.kind {
            "integer" => match first
                .as_i64()
                .or_else(|| first.as_f64().map(|number| number as i64))
            {
                Some(number) => json!(number),
                None => Value::Null,
            },
            "number" | "boolean" => match first {
                Value::Number(_) | Value::Bool(_) => (*first).clone(),
                _ => Value::Null,
            },
            "date" => match first.as_str() {
                Some(text) => json!(age(Some(text), now)),
                None => json!("<unknown>"),
            },
            _ => {
                let texts: Vec<String> = found.iter().map(|value| text(value)).collect();
                json!(texts.join(","))
            }
        }
    }
}

/// A text as it is, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
