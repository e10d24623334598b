//! How Go names a type in an error text: `v1.ObjectMeta`, `map[string]string`, `[]v1.Container`.

use crate::schema::{Schema, Shape};

/// The name of a declared type: packages by their last element.
pub(super) fn print(declared: &str) -> String {
    if let Some(item) = declared.strip_prefix("[]") {
        return format!("[]{}", print(item));
    }
    if let Some((key, value)) = declared
        .strip_prefix("map[")
        .and_then(|rest| rest.split_once(']'))
    {
        return format!("map[{}]{}", print(key), print(value));
    }
    match declared {
        "byte" => "uint8".to_owned(),
        "any" => "interface {}".to_owned(),
        name => name.rsplit('/').next().unwrap_or(name).to_owned(),
    }
}

/// The declared type of a list's items or a map's values. A named list does not show it; its shape does.
pub(super) fn item<'a>(declared: &'a str, shape: &Shape, schema: &'a Schema) -> &'a str {
    if let Some(item) = declared.strip_prefix("[]") {
        return item;
    }
    if let Some((_, value)) = declared
        .strip_prefix("map[")
        .and_then(|rest| rest.split_once(']'))
    {
        return value;
    }
    match shape {
        Shape::Struct(id) => &schema[*id].name,
        _ => "string",
    }
}
