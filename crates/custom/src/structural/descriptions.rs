//! Places the doc comments of variants, which `oneOf` cannot hold: on a field, or in a list of values.

use serde_json::Value;

use super::Node;

/// A list of the values and their descriptions, if the variants are values.
pub(super) fn described_values(variants: &[Node]) -> Option<String> {
    let mut lines = Vec::new();
    for variant in variants {
        let values = variant.get("enum")?.as_array()?;
        if let Some(Value::String(text)) = variant.get("description") {
            let names: Vec<String> = values
                .iter()
                .filter_map(Value::as_str)
                .map(|name| format!("`{name}`"))
                .collect();
            lines.push(format!("- {}: {text}", names.join(", ")));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Moves the description of a variant with one field to the field.
pub(super) fn describe_field(variant: &mut Node) {
    let Some(text) = variant.get("description").cloned() else {
        return;
    };
    let fields = variant.get_mut("properties").and_then(Value::as_object_mut);
    if let Some(fields) = fields.filter(|fields| fields.len() == 1) {
        let field = fields
            .values_mut()
            .next()
            .filter(|field| tag_value(field).is_none());
        if let Some(Value::Object(field)) = field {
            field.insert("description".into(), text);
        }
    }
}

/// The tag field of variants with descriptions, and a list of its values.
pub(super) fn described_tag(variants: &[Node]) -> Option<(String, String)> {
    let mut tag = None;
    let mut lines = Vec::new();
    for variant in variants {
        let mut fields = variant.get("properties")?.as_object()?.iter();
        let (name, value) = fields.find_map(|(name, field)| Some((name, tag_value(field)?)))?;
        if let Some(Value::String(text)) = variant.get("description") {
            lines.push(format!("- `{value}`: {text}"));
            tag = Some(name.clone());
        }
    }
    Some((tag?, lines.join("\n")))
}

/// The only value of a tag in a variant.
fn tag_value(field: &Value) -> Option<&str> {
    match field["enum"].as_array().map(Vec::as_slice) {
        Some([value]) => value.as_str(),
        _ => None,
    }
}

pub(super) fn joined(before: Option<&Value>, text: &str) -> String {
    match before.and_then(Value::as_str) {
        Some(before) => format!("{before}\n\n{text}"),
        None => text.to_owned(),
    }
}
