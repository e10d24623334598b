//! Common rules of flow schemas and priority levels.

use std::collections::HashSet;

use crate::rules::place::{Errors, Place};

/// Validates a status: conditions of different types.
pub(crate) fn check_status(status: &Place<'_, '_>, errors: &mut Errors) {
    let mut types = HashSet::new();
    for condition in status.field("conditions").items() {
        let kind = condition.field("type");
        if !types.insert(kind.text()) {
            errors.push(kind.duplicate());
        }
        if kind.text().is_empty() {
            errors.push(kind.required("must not be empty"));
        }
    }
}
