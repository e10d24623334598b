//! Config maps and secrets: keys, sizes and immutability.

use crate::kind::Change;
use crate::rules::formats::data_key;
use crate::rules::place::{Errors, Place};

pub(crate) fn check_key(key: &str, entry: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = data_key(key).into_iter();
    errors.extend(reasons.map(|why| entry.invalid_for(key, why)));
}

/// Refuses changes of an object marked `immutable`.
pub(crate) fn check_frozen(change: &Change<'_>, fields: &[&str], errors: &mut Errors) {
    if !change.live.field("immutable").is_true() {
        return;
    }
    for name in fields {
        let (new, live) = (change.new.field(name), change.live.field(name));
        if new.value() != live.value() {
            errors.push(new.forbidden("field is immutable when `immutable` is set"));
        }
    }
}
