//! What becomes of the doc comments of variants, which have no place in `oneOf`: a field has them, or a list of values.

use serde_json::Value;

use super::Node;

/// Lists what each value means, if the variants are values with descriptions.
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

/// The description of a variant that is one field is the field's.
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

/// The field that tells variants with descriptions apart, and a list of what each of its values means.
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

/// The one value that a tag has in a variant.
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
