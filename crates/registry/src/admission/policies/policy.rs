//! A validating policy, ready to be evaluated.

use serde_json::Value;
use watchkeeper_cel::Type;
use watchkeeper_kinds::expressions::{Environments, Expression, conditions};
use watchkeeper_kinds::metadata;

use crate::admission::matching::Matching;

/// A policy that can be evaluated. What does not compile, although it was accepted, fails when it is asked.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) matching: Matching,
    /// What must hold for the policy to be about a write at all.
    pub(super) conditions: Vec<Expression>,
    pub(super) variables: Vec<(String, Expression)>,
    pub(super) validations: Vec<Validation>,
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

impl Policy {
    pub(super) fn compile(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let items = |name: &str| spec[name].as_array().map_or(&[][..], Vec::as_slice);
        let mut environments = Environments::of(spec);
        let variables = items("variables").iter().map(|variable| {
            let name = text(variable, "name");
            let expression = environments.compile(&text(variable, "expression"), &[]);
            environments.add(&name, &expression);
            (name, expression)
        });
        let variables = variables.collect();
        let all = &environments;
        let validations = items("validations").iter().map(|validation| Validation {
            expression: all.compile(&text(validation, "expression"), &[Type::Bool]),
            message: text(validation, "message").trim().to_owned(),
            message_expression: validation["messageExpression"]
                .as_str()
                .map(|source| all.compile(source, &[Type::String])),
            reason: text(validation, "reason"),
        });
        let kind = &spec["paramKind"];
        Self {
            name: metadata::text(policy, "name").to_owned(),
            matching: Matching::of_policy(&spec["matchConstraints"]),
            conditions: conditions(spec),
            validations: validations.collect(),
            variables,
            fails_closed: spec["failurePolicy"] != "Ignore",
            parameter_kind: kind
                .is_object()
                .then(|| (text(kind, "apiVersion"), text(kind, "kind"))),
        }
    }
}
