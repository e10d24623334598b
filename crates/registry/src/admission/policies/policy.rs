//! A compiled policy.

use serde_json::Value;
use watchkeeper_cel::Type;
use watchkeeper_cel::patch_types::{json_patch_type, object_type};
use watchkeeper_kinds::expressions::{Environments, Expression, conditions};
use watchkeeper_kinds::metadata;

use crate::admission::matching::Matching;

/// A compiled policy. A validating policy has no mutations; a mutating policy has nothing else. An expression that
/// does not compile, although it was accepted, fails at evaluation.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) matching: Matching,
    /// `matchConditions`.
    pub(super) conditions: Vec<Expression>,
    pub(super) variables: Vec<(String, Expression)>,
    pub(super) validations: Vec<Validation>,
    /// `auditAnnotations`, by their keys.
    pub(super) notes: Vec<(String, Expression)>,
    pub(super) mutations: Vec<Mutation>,
    /// `reinvocationPolicy: IfNeeded`.
    pub(super) is_reinvoked: bool,
    /// `failurePolicy: Fail`.
    pub(super) fails_closed: bool,
    /// The `apiVersion` and `kind` of `paramKind`.
    pub(super) parameter_kind: Option<(String, String)>,
}

/// A validation of a policy.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

/// A mutation of a policy.
#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) kind: MutationKind,
    pub(super) expression: Expression,
}

/// The result type of a mutation's expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MutationKind {
    /// An apply configuration.
    Apply,
    /// The operations of a JSON patch.
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
            let expression = environments.compile(&text(note, "valueExpression"), &wanted);
            (text(note, "key"), expression)
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
                .map(|source| environments.without_authorizer().compile(source, &[Type::String])),
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
