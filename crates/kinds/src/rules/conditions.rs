//! Conditions as most kinds have them in their status (`meta/v1.Condition`).

use std::collections::HashSet;

use watchkeeper_meta::validation::qualified_name;

use crate::rules::place::{Errors, Place};

const STATUSES: &[&str] = &["False", "True", "Unknown"];
const MAX_REASON_BYTES: usize = 1024;
const MAX_MESSAGE_BYTES: usize = 32 * 1024;

/// Checks a list of conditions, one of each type.
pub(crate) fn check(conditions: &Place<'_, '_>, errors: &mut Errors) {
    let mut types = HashSet::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if !types.insert(kind.text()) {
            errors.push(kind.duplicate());
        }
        let problems = qualified_name(kind.text()).into_iter();
        errors.extend(problems.map(|why| kind.invalid_for(kind.text(), why)));
        check_condition(&condition, errors);
    }
}

fn check_condition(condition: &Place<'_, '_>, errors: &mut Errors) {
    condition.field("status").is_one_of(STATUSES, errors);
    let generation = condition.field("observedGeneration");
    if generation.number() < 0 {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    let since = condition.field("lastTransitionTime");
    if since.text().is_empty() {
        errors.push(since.required("must be set"));
    }
    let reason = condition.field("reason");
    if reason.text().is_empty() {
        errors.push(reason.required("must be set"));
    } else if !is_reason(reason.text()) {
        errors.push(reason.invalid(
            "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
             characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  \
             or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
             '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
        ));
    }
    if reason.text().len() > MAX_REASON_BYTES {
        errors.push(reason.too_long(MAX_REASON_BYTES));
    }
    let message = condition.field("message");
    if message.text().len() > MAX_MESSAGE_BYTES {
        errors.push(message.too_long(MAX_MESSAGE_BYTES));
    }
}

fn is_reason(reason: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b',' | b':');
    reason.starts_with(|first: char| first.is_ascii_alphabetic())
        && reason.bytes().all(fits)
        && !reason.ends_with([',', ':'])
}
