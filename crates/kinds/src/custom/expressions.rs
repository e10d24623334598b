//! Rules that a definition gives as expressions (`x-kubernetes-validations`): compiled with the definition, held against
//! every object that is written.
//!
//! ```text
//! schema ─▶ declare:  what `self` is, with the sizes it may have
//!        ─▶ compile:  a program for every rule, and what is wrong with it, or too dear
//! object ─▶ evaluate: each rule where it applies, against one budget
//! ```
//!
//! A kind without rules has no tree of them, and its writes pay nothing.

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

/// Where rules stand in a schema.
const RULES: &str = "x-kubernetes-validations";

/// The rules of a version of a kind.
#[derive(Debug)]
pub(crate) struct Expressions {
    root: Node,
}

/// The rules at one place of a schema, and at those below it.
#[derive(Debug)]
struct Node {
    /// What `self` is here.
    declared: Declared,
    /// The same, as the schema calls it.
    type_name: String,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Node>,
    additional: Option<Box<Node>>,
    items: Option<Box<Node>>,
    all_of: Vec<Node>,
    correlation: Correlation,
}

/// How what is below a place is found in the object as it was before.
#[derive(Debug, PartialEq, Eq)]
enum Correlation {
    /// By its name.
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
    /// Says what is wrong, with the values that are.
    message_expression: Option<Program>,
    /// What is told of it: its message, or itself.
    shown: String,
    message: Option<String>,
    reason: FieldErrorKind,
    /// Which field of the object is at error: `spec.name`.
    field_path: Option<String>,
    uses_old: bool,
    has_optional_old: bool,
}

impl Expressions {
    /// The rules of a schema that was accepted; `None` if it has none.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        let (root, _) = compile::compile(&FieldPath::default(), schema);
        root.map(|root| Self { root })
    }

    /// What rules find wrong with an object, given what it was before, if it was. What would have been found before as
    /// well is only warned of.
    pub(crate) fn errors(&self, object: &Value, live: Option<&Value>, warnings: &Warnings) -> FieldErrors {
        evaluate::errors(&self.root, &FieldPath::default(), object, live, warnings)
    }
}

/// What is wrong with the rules of a schema, and whether they could cost too much.
pub(crate) fn definition_errors(path: &FieldPath, schema: &Value) -> FieldErrors {
    compile::compile(path, schema).1
}

/// What is said if errors of another kind keep the rules from being held against an object.
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
