//! Validation of update strategies.

use watchkeeper_meta::{BadValue, FieldError, FieldErrorKind};

use crate::rules::go_structs;
use crate::rules::place::Place;

/// The error of an unknown strategy type, shown as Kubernetes' internal struct.
pub(crate) fn unknown_type(
    strategy: &Place<'_, '_>,
    go_type: &str,
    kind: FieldErrorKind,
    detail: &str,
) -> FieldError {
    FieldError {
        kind,
        field: strategy.path(),
        value: BadValue::Printed(go_structs::structure(go_type, strategy.value()).into()),
        detail: detail.to_owned(),
    }
}
