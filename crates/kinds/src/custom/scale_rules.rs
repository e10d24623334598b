//! Validation of the scale fields of custom objects.

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath};
use watchkeeper_patch::go_text::go_value;

use super::ScalePaths;
use super::json_path::JsonPath;

impl ScalePaths {
    /// The errors of the desired number of replicas.
    pub(crate) fn spec_errors(&self, object: &Value, errors: &mut FieldErrors) {
        check_number(&self.wanted, object, errors);
    }

    /// The errors of the current number of replicas and of the selector.
    pub(crate) fn status_errors(&self, object: &Value, errors: &mut FieldErrors) {
        check_number(&self.found, object, errors);
        let Some(path) = &self.selector else { return };
        match path.first(object) {
            None | Some(Value::String(_)) => {}
            Some(found) => errors.push(unlike(path, found, "", "string")),
        }
    }
}

fn check_number(path: &JsonPath, object: &Value, errors: &mut FieldErrors) {
    let Some(found) = path.first(object) else {
        return;
    };
    let Some(number) = found.as_i64() else {
        return errors.push(unlike(path, found, 0, "int64"));
    };
    let max = i64::from(i32::MAX);
    let why = match number {
        ..0 => "should be a non-negative integer".to_owned(),
        number if number > max => format!("should be less than or equal to {max}"),
        _ => return,
    };
    errors.push(FieldError::invalid(&FieldPath::new(&written(path)), number, why));
}

/// The error of a value of another type, with Go's text.
fn unlike(path: &JsonPath, found: &Value, shown: impl Into<Value>, wanted: &str) -> FieldError {
    let (at, printed) = (written(path), go_value(found));
    let found = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let why = format!("{at} accessor error: {printed} is of the type {found}, expected {wanted}");
    FieldError::invalid(&FieldPath::new(&at), shown, why)
}

/// `.spec.replicas`.
fn written(path: &JsonPath) -> String {
    path.fields().map(|field| format!(".{field}")).collect()
}
