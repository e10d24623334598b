//! Policies that change writes, in expressions.

use serde_json::json;
use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{BY_SCHEMA, Generation, Hooks, Kind};
use crate::rules::admission::default_policy;
use crate::table::Column;
use crate::table::cells::param_kind;

/// What is particular to `mutatingadmissionpolicies`.
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
    ..BY_SCHEMA
};
