//! What is wrong with how old pods are replaced by new ones.

use watchkeeper_meta::{BadValue, FieldError, FieldErrorKind};

use crate::rules::go_structs;
use crate::rules::place::Place;

/// A strategy of an unknown type, in the form in which Kubernetes shows it: its own fields, not those on the wire.
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
