//! What is wrong with how old pods are replaced by new ones.

use serde_json::Value;
use watchkeeper_meta::BadValue;
use watchkeeper_meta::{FieldError, FieldErrorKind};

use super::super::place::{Faults, Place};

/// Checks a number of pods, or a percentage of them.
pub(super) fn check_amount(amount: &Place<'_, '_>, faults: &mut Faults) {
    match amount.value() {
        Value::String(text) if percent(text).is_none() => faults.push(amount.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
             regex used for validation is '[0-9]+%')",
        )),
        _ => amount.must_not_be_negative(faults),
    }
}

/// Checks that a percentage is not more than everything.
pub(super) fn check_at_most_all(amount: &Place<'_, '_>, faults: &mut Faults) {
    if percent(amount.text()).is_some_and(|percent| percent > 100) {
        faults.push(amount.invalid("must not be greater than 100%"));
    }
}

/// The number or the percentage; 0 for anything else.
pub(super) fn size(amount: &Value) -> i64 {
    match amount {
        Value::String(text) => percent(text).unwrap_or_default(),
        amount => amount.as_i64().unwrap_or_default(),
    }
}

/// A strategy of an unknown type, in the form in which Kubernetes shows it: its own fields, not those on the wire.
pub(super) fn unknown_type(strategy: &Place<'_, '_>, kind: FieldErrorKind, detail: &str) -> FieldError {
    let rolling = &strategy.value()["rollingUpdate"];
    let kept = watchkeeper_meta::quote(strategy.field("type").text());
    FieldError {
        kind,
        field: strategy.path(),
        value: BadValue::Printed(format!(r#"{{"Type":{kept},"RollingUpdate":{}}}"#, shown(rolling))),
        detail: detail.to_owned(),
    }
}

fn shown(rolling: &Value) -> String {
    match rolling.as_object() {
        None => "null".to_owned(),
        Some(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                let (first, rest) = name.split_at(1);
                format!(r#""{}{rest}":{value}"#, first.to_uppercase())
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
    }
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}
