//! What a Go server makes of a JSON body.

use serde_json::Value;

use crate::values::Quantity;

/// What error texts call the type of a JSON value.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A quantity in canonical form; null is zero, a number is its text.
pub(crate) fn quantity_text(value: &Value) -> Result<String, String> {
    let parsed = match value {
        Value::Null => Ok(Quantity::default()),
        Value::String(text) => text.parse::<Quantity>(),
        Value::Number(number) => number.to_string().parse(),
        other => return Err(format!("expected a quantity, found {}", json_type(other))),
    };
    parsed
        .map(|quantity| quantity.to_string())
        .map_err(|error| error.to_string())
}
