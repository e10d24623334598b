//! ValidatingAdmissionPolicyBinding: puts a validating policy into force.

use std::collections::HashSet;

use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{ACTIONS, BINDING_COLUMNS, check_binding, default_binding};
use crate::rules::place::{Errors, Place};

/// The kind served as `validatingadmissionpolicybindings`.
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
    check: |binding, errors| {
        let spec = binding.field("spec");
        check_binding(&spec, errors);
        check_actions(&spec.field("validationActions"), errors);
    },
    ..PLAIN
};

fn check_actions(actions: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        action.is_one_of(ACTIONS, errors);
        if !seen.insert(action.text()) {
            errors.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        errors.push(actions.invalid(
            "must not contain both Deny and Warn (repeating the same validation failure information in the API \
             response and headers serves no purpose)",
        ));
    }
    if seen.is_empty() {
        errors.push(actions.required(""));
    }
}
