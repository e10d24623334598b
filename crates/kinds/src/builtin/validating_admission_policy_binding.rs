//! Where a validating policy is in force.

use std::collections::HashSet;

use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{ACTIONS, BINDING_COLUMNS, check_binding, default_binding};
use crate::rules::place::{Faults, Place};

/// What is particular to `validatingadmissionpolicybindings`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: BINDING_COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const HOOKS: Hooks = Hooks {
    default: default_binding,
    check: |binding, faults| {
        let spec = binding.field("spec");
        check_binding(&spec, faults);
        check_actions(&spec.field("validationActions"), faults);
    },
    ..PLAIN
};

fn check_actions(actions: &Place<'_, '_>, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        action.is_one_of(ACTIONS, faults);
        if !seen.insert(action.text()) {
            faults.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        faults.push(actions.invalid(
            "must not contain both Deny and Warn (repeating the same validation failure information in the API \
             response and headers serves no purpose)",
        ));
    }
    if seen.is_empty() {
        faults.push(actions.required(""));
    }
}
