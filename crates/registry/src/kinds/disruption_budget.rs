//! Pod disruption budgets: how many pods may be missing.

use serde_json::Value;
use watchkeeper_meta::validation::label_selector;
use watchkeeper_meta::{BadValue, FieldError, FieldPath};

use super::check::{one_of, text};
use super::formats::not_negative;
use super::{Hooks, PLAIN};
use crate::update::Part;

/// What only a status has to say, none of it below zero.
const COUNTS: &[&str] = &[
    "disruptionsAllowed",
    "currentHealthy",
    "desiredHealthy",
    "expectedPods",
];

pub(super) const HOOKS: Hooks = Hooks {
    faults,
    update_faults: |part, budget, _| {
        let mut faults = Vec::new();
        if part == Part::Status {
            for name in COUNTS {
                let path = FieldPath::new("status").child(name);
                not_negative(&mut faults, &path, &budget["status"][name]);
            }
        }
        faults
    },
    ..PLAIN
};

fn faults(budget: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let field = |name: &str| budget["spec"].get(name);
    if field("minAvailable").is_some() && field("maxUnavailable").is_some() {
        let why = "minAvailable and maxUnavailable cannot be both set";
        faults.push(FieldError {
            value: BadValue::Printed(shown(budget)),
            ..FieldError::invalid(&spec, Value::Null, why)
        });
    }
    for name in ["minAvailable", "maxUnavailable"] {
        if let Some(share) = field(name) {
            share_faults(share, &spec.child(name), &mut faults);
        }
    }
    if let Some(selector) = field("selector") {
        faults.extend(label_selector(selector, &spec.child("selector")));
    }
    let policy = text(budget, "/spec/unhealthyPodEvictionPolicy");
    if !policy.is_empty() {
        let path = spec.child("unhealthyPodEvictionPolicy");
        one_of(&mut faults, &path, policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
    faults
}

/// The spec as Kubernetes shows a struct of its own.
fn shown(budget: &Value) -> String {
    let field = |name: &str| budget["spec"].get(name).cloned().unwrap_or_default();
    format!(
        r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
        field("minAvailable"),
        field("selector"),
        field("maxUnavailable"),
        field("unhealthyPodEvictionPolicy")
    )
}

/// A number of pods, or a percentage of all.
fn share_faults(share: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let Some(text) = share.as_str() else {
        return not_negative(faults, path, share);
    };
    let digits = text.strip_suffix('%').unwrap_or_default();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
        faults.push(FieldError::invalid(path, text, why));
    } else if digits.parse::<u64>().is_ok_and(|percent| percent > 100) {
        faults.push(FieldError::invalid(path, text, "must not be greater than 100%"));
    }
}
