//! Validates the fields of a rule before it is compiled.

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath};

use super::RULES;
use super::field_path::normalize;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

const MAX_MESSAGE_BYTES: usize = 2048;
/// The characters of a too long message that its error shows.
const SHOWN_OF_MESSAGE: usize = 10;

/// The errors of the rules at one node before compilation.
pub(crate) fn rule_errors(path: &FieldPath, schema: &Value, errors: &mut FieldErrors) {
    let rules = schema[RULES].as_array().into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        let at = path.child(RULES).index(index);
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let is_blank = |name: &str| !text(name).is_empty() && text(name).trim().is_empty();
        let has_lines = |name: &str| text(name).trim().contains(['\n', '\r']);
        let mut invalid = |name: &str, why: &str| {
            errors.push(FieldError::invalid(&at.child(name), text(name), why));
        };
        if text("rule").trim().is_empty() {
            errors.push(FieldError::required(&at.child("rule"), "rule is not specified"));
        } else if is_blank("message") {
            invalid("message", "must be non-empty if specified");
        } else if text("message").len() > MAX_MESSAGE_BYTES {
            let start: String = text("message").chars().take(SHOWN_OF_MESSAGE).collect();
            let why = format!("must have a maximum length of {MAX_MESSAGE_BYTES} characters");
            errors.push(FieldError::invalid(
                &at.child("message"),
                format!("{start}..."),
                why,
            ));
        } else if has_lines("message") {
            invalid("message", "must not contain line breaks");
        } else if has_lines("rule") && text("message").is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&at.child("message"), why));
        }
        if is_blank("messageExpression") {
            let why = "must be non-empty if specified";
            errors.push(FieldError::required(&at.child("messageExpression"), why));
        }
        if rule.get("reason").is_some_and(|it| !it.is_null()) && !REASONS.contains(&text("reason")) {
            let at = at.child("reason");
            errors.push(FieldError::not_supported(&at, text("reason"), &REASONS));
        }
        field_path_errors(&at.child("fieldPath"), text("fieldPath"), schema, errors);
    }
}

fn field_path_errors(at: &FieldPath, path: &str, schema: &Value, errors: &mut FieldErrors) {
    let mut invalid = |why: &str| errors.push(FieldError::invalid(at, path, why));
    if !path.is_empty() && path.trim().is_empty() {
        invalid("must be non-empty if specified");
    }
    if path.contains(['\n', '\r']) {
        invalid("must not contain line breaks");
    }
    if !path.is_empty() && normalize(path, schema).is_none() {
        invalid("must be a valid path");
    }
}
