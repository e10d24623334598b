//! A policy, ready to be evaluated.

use serde_json::Value;
use watchkeeper_cel::Type;
use watchkeeper_cel::patch_types::{json_patch_type, object_type};
use watchkeeper_kinds::expressions::{Environments, Expression, conditions};
use watchkeeper_kinds::metadata;

use crate::admission::matching::Matching;

/// A policy that can be evaluated: one that validates has no mutations, one that mutates has nothing else. What does not compile, although it was accepted, fails when it is asked.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) matching: Matching,
    /// What must hold for the policy to be about a write at all.
    pub(super) conditions: Vec<Expression>,
    pub(super) variables: Vec<(String, Expression)>,
    pub(super) validations: Vec<Validation>,
    /// What an audit log would be told.
    pub(super) notes: Vec<Expression>,
    pub(super) mutations: Vec<Mutation>,
    /// Whether it sees once more what is changed after it.
    pub(super) is_reinvoked: bool,
    /// Whether a write is refused that cannot be told about.
    pub(super) fails_closed: bool,
    /// The `apiVersion` and `kind` of its parameters.
    pub(super) parameter_kind: Option<(String, String)>,
}

/// What a write must hold to.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

/// What a write is changed by.
#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) kind: MutationKind,
    pub(super) expression: Expression,
}

/// What the expression of a mutation makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MutationKind {
    /// A configuration to be merged.
    Apply,
    /// Operations of a JSON patch.
    JsonPatch,
}

impl Policy {
    pub(super) fn compile(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let items = |name: &str| spec[name].as_array().map_or(&[][..], Vec::as_slice);
        let mut environments = Environments::of(spec);
        let variables = items("variables").iter().map(|variable| {
            let name = text(variable, "name");
            let expression = environments.compile(&text(variable, "expression"), &[]);
            environments.add(&name, &expression);
            (name, expression)
        });
        let variables = variables.collect();
        let validations = items("validations").iter();
        let validations = validations.map(|validation| Validation::compile(validation, &environments));
        let validations = validations.collect();
        let notes = items("auditAnnotations").iter().map(|note| {
            let wanted = [Type::String, Type::Null];
            environments.compile(&text(note, "valueExpression"), &wanted)
        });
        let notes = notes.collect();
        let environments = environments.with_patch_types();
        let mutations = items("mutations").iter();
        let mutations = mutations.map(|mutation| Mutation::compile(mutation, &environments));
        let kind = &spec["paramKind"];
        Self {
            name: metadata::text(policy, "name").to_owned(),
            matching: Matching::of_policy(&spec["matchConstraints"]),
            conditions: conditions(spec),
            variables,
            validations,
            notes,
            mutations: mutations.collect(),
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            fails_closed: spec["failurePolicy"] != "Ignore",
            parameter_kind: kind
                .is_object()
                .then(|| (text(kind, "apiVersion"), text(kind, "kind"))),
        }
    }
}

impl Validation {
    fn compile(validation: &Value, environments: &Environments) -> Self {
        let message_expression = validation["messageExpression"].as_str();
        Self {
            expression: environments.compile(&text(validation, "expression"), &[Type::Bool]),
            message: text(validation, "message").trim().to_owned(),
            message_expression: message_expression
                .map(|source| environments.compile(source, &[Type::String])),
            reason: text(validation, "reason"),
        }
    }
}

impl Mutation {
    fn compile(mutation: &Value, environments: &Environments) -> Self {
        let (kind, field, wanted) = match mutation["patchType"] == "JSONPatch" {
            true => (MutationKind::JsonPatch, "jsonPatch", json_patch_type()),
            false => (MutationKind::Apply, "applyConfiguration", object_type()),
        };
        let source = text(&mutation[field], "expression");
        Self {
            kind,
            expression: environments.compile(&source, &[wanted]),
        }
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
