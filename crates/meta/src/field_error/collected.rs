//! The validation errors of one request, within a budget.
//!
//! A body of a few megabytes can break a rule a million times, and an error that shows a whole list for each of its
//! items makes the answer grow with the square of the body. [`FieldErrors`] therefore keeps the first errors and only
//! counts the rest. The client is told how many were left out.

use std::ops::Deref;

use serde_json::Value;

use super::{BadValue, FieldError};

/// The largest number of errors kept. Kubernetes keeps all; no recorded answer has a tenth as many.
pub const MAX_FIELD_ERRORS: usize = 1_000;

/// The largest total text of the kept errors. The first error is always kept, whatever its length.
///
/// The answer states each error twice, so it stays in proportion to a request, which has at most 3 MiB.
pub const MAX_FIELD_ERROR_BYTES: usize = 1 << 20;

/// Validation errors in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors {
    kept: Vec<FieldError>,
    /// The approximate length of the kept errors' text.
    bytes: usize,
    left_out: usize,
}

impl FieldErrors {
    /// No errors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error. Once one did not fit, it and all later ones are only counted.
    pub fn push(&mut self, error: FieldError) {
        self.push_with(|| error);
    }

    /// Adds an error that is expensive to build. It is not built if it would only be counted.
    pub fn push_with(&mut self, error: impl FnOnce() -> FieldError) {
        if self.left_out > 0 || self.kept.len() == MAX_FIELD_ERRORS {
            self.left_out += 1;
            return;
        }
        let error = error();
        let bytes = self.bytes + size(&error);
        if bytes > MAX_FIELD_ERROR_BYTES && !self.kept.is_empty() {
            self.left_out += 1;
            return;
        }
        self.bytes = bytes;
        self.kept.push(error);
    }

    /// Adds the same error several times.
    pub fn push_times(&mut self, times: usize, error: impl Fn() -> FieldError) {
        for before in 0..times {
            if self.left_out > 0 {
                self.left_out += times - before;
                return;
            }
            self.push_with(&error);
        }
    }

    /// Adds an error in front of all others.
    pub fn push_first(&mut self, error: FieldError) {
        let others = std::mem::replace(self, Self::from(error));
        self.append(others);
    }

    /// Adds the errors of another rule.
    pub fn append(&mut self, others: Self) {
        self.extend(others.kept);
        self.left_out += others.left_out;
    }

    /// Rewrites each kept error.
    pub fn map(self, tell: impl FnMut(FieldError) -> FieldError) -> Self {
        let mut told: Self = self.kept.into_iter().map(tell).collect();
        told.left_out += self.left_out;
        told
    }

    /// The number of errors that were counted but not kept.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// `and 12 more errors`, if any were left out.
    pub(crate) fn remainder(&self) -> Option<String> {
        match self.left_out {
            0 => None,
            1 => Some("and 1 more error".to_owned()),
            count => Some(format!("and {count} more errors")),
        }
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.kept
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut collected = Self::new();
        collected.extend(errors);
        collected
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        Self::from_iter([error])
    }
}

/// The approximate length of an error's text, without escapes and punctuation.
fn size(error: &FieldError) -> usize {
    let mut bytes = error.field.as_str().len() + error.detail.len();
    match &error.value {
        BadValue::Omitted => {}
        BadValue::Printed(text) => bytes += text.len(),
        BadValue::Json(value) => add_size(value, &mut bytes),
    }
    bytes
}

/// Adds the length of a value as JSON. Stops once the budget is exceeded.
fn add_size(value: &Value, bytes: &mut usize) {
    const PUNCTUATION: usize = 4;
    if *bytes > MAX_FIELD_ERROR_BYTES {
        return;
    }
    *bytes += PUNCTUATION;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => *bytes += text.len(),
        Value::Array(items) => items.iter().for_each(|item| add_size(item, bytes)),
        Value::Object(members) => {
            for (name, value) in members {
                *bytes += name.len();
                add_size(value, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FieldPath, GroupKind, Status};

    fn error(detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(&FieldPath::new("a"), detail)
    }

    fn refused(errors: &FieldErrors) -> Status {
        Status::invalid(&GroupKind::new("", "Pod"), "p", errors)
    }

    #[test]
    fn errors_beyond_the_budget_are_counted_and_said() {
        let errors: FieldErrors = (0..MAX_FIELD_ERRORS + 7)
            .map(|index| error(index.to_string()))
            .collect();
        assert_eq!((errors.len(), errors.left_out()), (MAX_FIELD_ERRORS, 7));
        let status = refused(&errors);
        assert!(status.message.ends_with("a: Forbidden: 999, and 7 more errors]"));
        let causes = status.details.unwrap().causes;
        assert_eq!(causes.len(), MAX_FIELD_ERRORS + 1);
        assert_eq!(causes.last().unwrap().message, "and 7 more errors");
    }

    #[test]
    fn long_errors_use_up_the_budget_and_the_first_is_always_kept() {
        let long = || error("x".repeat(MAX_FIELD_ERROR_BYTES));
        let mut errors = FieldErrors::from(long());
        assert_eq!((errors.len(), errors.left_out()), (1, 0));
        errors.push(long());
        errors.push_with(|| unreachable!("only the number matters now"));
        assert_eq!((errors.len(), errors.left_out()), (1, 2));
        assert!(refused(&errors).message.starts_with("Pod \"p\" is invalid: [a: "));
    }

    #[test]
    fn what_another_rule_left_out_is_not_forgotten() {
        let mut errors = FieldErrors::from(error("one"));
        let others: FieldErrors = (0..MAX_FIELD_ERRORS + 1).map(|_| error("two")).collect();
        errors.append(others);
        assert_eq!((errors.len(), errors.left_out()), (MAX_FIELD_ERRORS, 2));
        assert!(
            refused(&errors)
                .message
                .ends_with("[a: Forbidden: one, a: Forbidden: two, and 2 more errors]")
        );
    }
}
