//! MutatingAdmissionPolicyBinding: puts a mutating policy into force.

use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{BINDING_COLUMNS, check_binding, default_binding};

/// The kind served as `mutatingadmissionpolicybindings`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "MutatingAdmissionPolicyBinding",
    plural: "mutatingadmissionpolicybindings",
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: BINDING_COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const HOOKS: Hooks = Hooks {
    default: default_binding,
    check: |binding, errors| check_binding(&binding.field("spec"), errors),
    ..PLAIN
};
