//! Checks field selectors, and reads the fields they use.

use serde_json::Value;
use watchkeeper_meta::{FieldSelector, SelectorError, Status};

use super::KindVersion;

impl KindVersion {
    /// Checks that a selector uses only selectable fields, and replaces old names.
    pub fn check_fields(&self, selector: FieldSelector) -> Result<FieldSelector, Status> {
        let rename = |field: &str| self.selectable_name(field);
        selector
            .try_rename(rename)
            .map_err(|error| Status::bad_request(error.to_string()))
    }

    fn selectable_name(&self, field: &str) -> Result<String, SelectorError> {
        // A built-in kind with its own list includes the namespace if it is namespaced.
        let has_namespace = self.kind.selectable.is_none() || self.is_namespaced();
        if field == "metadata.name" || (field == "metadata.namespace" && has_namespace) {
            return Ok(field.to_owned());
        }
        if let Some(custom) = &self.custom {
            let is_known = custom.selectable.iter().any(|(known, _)| known == field);
            return match is_known {
                true => Ok(field.to_owned()),
                false => Err(SelectorError::unsupported_field(field)),
            };
        }
        // The error for unknown fields differs for a kind without its own list.
        let Some(known) = self.kind.selectable else {
            return Err(SelectorError::unknown_field(field));
        };
        match known.iter().find(|known| known.name == field) {
            Some(known) => Ok(known.now.unwrap_or(field).to_owned()),
            None => Err(match self.kind.unselectable {
                Some(why) => SelectorError::new(why(field)),
                None => SelectorError::unsupported_field(field),
            }),
        }
    }

    /// The value of a selectable field as text; empty if unset.
    pub fn field_value(&self, object: &Value, field: &str) -> String {
        let text = |value: Option<&Value>, zero: &str| match value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => zero.to_owned(),
            Some(other) => other.to_string(),
        };
        match field {
            "metadata.name" => return text(object.pointer("/metadata/name"), ""),
            "metadata.namespace" => return text(object.pointer("/metadata/namespace"), ""),
            _ => {}
        }
        if let Some(custom) = &self.custom {
            let path = custom.selectable.iter().find(|(known, _)| known == field);
            return text(path.and_then(|(_, path)| path.first(object)), "");
        }
        let mut known = self.kind.selectable.into_iter().flatten();
        let Some(known) = known.find(|known| known.name == field) else {
            return String::new();
        };
        let mut found = known
            .pointers
            .iter()
            .filter_map(|pointer| object.pointer(pointer));
        text(found.find(|value| value.as_str() != Some("")), known.zero)
    }
}
