//! MutatingAdmissionPolicy: mutates objects on admission by CEL expressions.

use serde_json::json;
use watchkeeper_cel::Type;
use watchkeeper_cel::patch_types::{json_patch_type, object_type};
use watchkeeper_meta::validation::FinalizerRule;

use crate::expressions::Environments;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::admission::{check_conditions, check_policy, check_variables, default_policy};
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::param_kind;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];

/// The kind served as `mutatingadmissionpolicies`.
pub static KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    name: "MutatingAdmissionPolicy",
    plural: "mutatingadmissionpolicies",
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Mutations", |row| row.len("/spec/mutations")),
    Column::text("ParamKind", |row| json!(param_kind(row.at("/spec/paramKind")))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: default_policy,
    check: |policy, errors| check(&policy.field("spec"), errors),
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    check_policy(spec, errors);
    check_operations(spec, errors);
    check_conditions(spec, errors);
    let environments = check_variables(spec, errors).with_patch_types();
    let mutations = spec.field("mutations");
    if mutations.len() == 0 {
        errors.push(mutations.required("mutations must contain at least one item"));
    }
    for mutation in mutations.items() {
        check_mutation(&mutation, &environments, errors);
    }
    spec.field("reinvocationPolicy")
        .must_be_one_of(&["IfNeeded", "Never"], errors);
}

/// Rejects `DELETE`, where there is no object to mutate. As in Kubernetes, errors do not give the index of the
/// operation.
fn check_operations(spec: &Place<'_, '_>, errors: &mut Errors) {
    let constraints = spec.field("matchConstraints");
    let rules = constraints.field("resourceRules");
    let at = rules.field("operations");
    for rule in rules.items() {
        for operation in rule.field("operations").items() {
            at.with_value(operation.value()).is_one_of(OPERATIONS, errors);
        }
    }
}

fn check_mutation(mutation: &Place<'_, '_>, environments: &Environments, errors: &mut Errors) {
    let kind = mutation.field("patchType");
    let (wanted, other, made) = match kind.text() {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", object_type()),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", json_patch_type()),
        _ => return kind.must_be_one_of(PATCH_TYPES, errors),
    };
    let (patch, unwanted) = (mutation.field(wanted), mutation.field(other));
    let when = format!("when patchType is {}", kind.text());
    if !patch.is_set() {
        errors.push(patch.required(&format!("must be specified {when}")));
    } else {
        check_patch(&patch.field("expression"), made, environments, errors);
    }
    if unwanted.is_set() {
        let why = format!("must not be specified {when}");
        errors.push(unwanted.invalid_for(format!("{{{other}}}"), why));
    }
}

/// Checks the expression of a patch.
fn check_patch(expression: &Place<'_, '_>, wanted: Type, environments: &Environments, errors: &mut Errors) {
    match expression.text().trim() {
        "" => errors.push(expression.required("expression is not specified")),
        _ => environments.check(expression, &[wanted], errors),
    }
}
