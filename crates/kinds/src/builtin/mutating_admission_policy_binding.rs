//! Where a mutating policy is in force.

use serde_json::json;
use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{check_binding, default_binding};
use crate::table::Column;
use crate::table::cells::param_ref;

/// What is particular to `mutatingadmissionpolicybindings`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "MutatingAdmissionPolicyBinding",
    plural: "mutatingadmissionpolicybindings",
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("PolicyName", |row| json!(row.text("/spec/policyName"))),
    Column::text("ParamRef", |row| json!(param_ref(row.at("/spec/paramRef")))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: default_binding,
    check: |binding, faults| check_binding(&binding.field("spec"), faults),
    ..PLAIN
};
