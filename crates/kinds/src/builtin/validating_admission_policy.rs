//! Policies that refuse writes, in expressions.

use serde_json::json;
use watchkeeper_meta::validation::FinalizerRule;

use crate::expressions;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{FAILURE_POLICIES, check_rule, check_selectors, default_policy};
use crate::rules::place::{Faults, Place};
use crate::table::Column;
use crate::table::cells::param_kind;

/// What is particular to `validatingadmissionpolicies`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
    status_keeps_metadata: true,
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Validations", |row| row.len("/spec/validations")),
    Column::text("ParamKind", |row| json!(param_kind(row.at("/spec/paramKind")))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: default_policy,
    check: |policy, faults| check_policy(&policy.field("spec"), faults),
    ..PLAIN
};

fn check_policy(spec: &Place<'_, '_>, faults: &mut Faults) {
    spec.field("failurePolicy")
        .may_be_one_of(FAILURE_POLICIES, faults);
    let constraints = spec.field("matchConstraints");
    match constraints.is_set() {
        false => faults.push(constraints.required("")),
        true => {
            check_selectors(&constraints, faults);
            let rules = constraints.field("resourceRules");
            if rules.len() == 0 {
                faults.push(rules.required(""));
            }
            rules.items().for_each(|rule| check_rule(&rule, faults));
        }
    }
    let lists = ["validations", "auditAnnotations"].map(|name| spec.field(name));
    if lists.iter().all(|list| list.len() == 0) {
        let why = "validations or auditAnnotations must contain at least one item";
        faults.extend(lists.map(|list| list.required(why)));
    }
    faults.append(expressions::faults(&spec.path(), spec.value()));
}
