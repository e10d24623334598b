//! CEL rules of a definition (`x-kubernetes-validations`): compiled with the definition, evaluated for every write.
//!
//! ```text
//! schema ─▶ declare:  the type of `self`, with maximum sizes
//!        ─▶ compile:  a program for every rule, or its errors and cost
//! object ─▶ evaluate: each rule where it applies, against one budget
//! ```
//!
//! A kind without rules has no tree, and its writes pay nothing.

mod compile;
mod declare;
mod evaluate;
mod field_path;
mod form;

use std::collections::BTreeMap;

use serde_json::Value;
use watchkeeper_cel::{Declared, Program};
use watchkeeper_meta::{FieldError, FieldErrorKind, FieldErrors, FieldPath};

pub(crate) use self::form::rule_errors;
use crate::Warnings;

/// The keyword of rules in a schema.
const RULES: &str = "x-kubernetes-validations";

/// The rules of a version of a kind.
#[derive(Debug)]
pub(crate) struct Expressions {
    root: Node,
}

/// The rules of a schema node and of those below it.
#[derive(Debug)]
struct Node {
    /// The declaration of `self`.
    declared: Declared,
    /// The type of `self` in the schema.
    type_name: String,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
    all_of: Vec<Node>,
    correlation: Correlation,
}

/// The way nested values are matched with their old values.
#[derive(Debug, PartialEq, Eq)]
enum Correlation {
    /// By field name.
    Names,
    /// By some fields of the item.
    Keys(Vec<String>),
    /// Not at all.
    None,
}

/// One rule.
#[derive(Debug)]
struct Rule {
    program: Program,
    /// Computes the error message from the values.
    message_expression: Option<Program>,
    /// The rule in messages: its message, or its source.
    shown: String,
    message: Option<String>,
    reason: FieldErrorKind,
    /// The field named in the error: `spec.name`.
    field_path: Option<String>,
    uses_old: bool,
    has_optional_old: bool,
}

impl Expressions {
    /// The rules of an accepted schema; `None` if there are none.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        let (root, _) = compile::compile(&FieldPath::default(), schema);
        root.map(|root| Self { root })
    }

    /// The errors of an object, given its old state. Errors that already existed before become warnings (ratcheting).
    pub(crate) fn errors(&self, object: &Value, live: Option<&Value>, warnings: &Warnings) -> FieldErrors {
        evaluate::errors(&self.root, &FieldPath::default(), object, live, warnings)
    }
}

/// The errors of a schema's rules, including excessive estimated cost.
pub(crate) fn definition_errors(path: &FieldPath, schema: &Value) -> FieldErrors {
    compile::compile(path, schema).1
}

/// The error reported if other errors prevent the rules from being evaluated.
pub(crate) fn unchecked(errors: &FieldErrors) -> Option<FieldError> {
    use FieldErrorKind::{Required, TooLong, TooMany, TypeInvalid};
    let is_blocking = |error: &FieldError| matches!(error.kind, Required | TooLong | TooMany | TypeInvalid);
    let is_blocked = errors.left_out() > 0 || errors.iter().any(is_blocking);
    is_blocked.then(|| {
        FieldError::invalid(
            &FieldPath::default(),
            Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to \
             complete validation",
        )
    })
}
/// The type of a schema in expressions; `None` if they cannot use it.
pub(crate) fn declared(schema: &Value, name: &str) -> Option<Declared> {
    let typed = declare::declare(schema, false, name)?;
    Some(typed.declared)
}
