//! Where a validating policy is in force.

use serde_json::json;
use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{ACTIONS, default_binding};
use crate::table::Column;
use crate::table::cells::param_ref;

/// What is particular to `validatingadmissionpolicybindings`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
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
    check: |binding, faults| {
        let spec = binding.field("spec");
        spec.field("policyName").must_be_set(faults);
        let actions = spec.field("validationActions");
        if actions.len() == 0 {
            faults.push(actions.required(""));
        }
        actions
            .items()
            .for_each(|action| action.is_one_of(ACTIONS, faults));
    },
    ..PLAIN
};

