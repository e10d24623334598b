//! What a policy says to a write.

use std::sync::LazyLock;

use serde_json::Value;
use watchkeeper_cel::limits::{CALL_BUDGET, OBJECT_BUDGET};
use watchkeeper_cel::{Declared, EvalError, Value as Evaluated};
use watchkeeper_kinds::expressions::{Expression, declared};

use super::policy::{Policy, Validation};
use super::rights::Rights;

/// The longest message that an expression may make.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// What `namespaceObject` and `request` are, whatever the policy.
static DECLARED: LazyLock<(Declared, Declared)> = LazyLock::new(declared);

/// What expressions look at.
pub(in crate::admission) struct Input<'v> {
    pub(in crate::admission) object: Option<&'v Value>,
    pub(in crate::admission) old: Option<&'v Value>,
    pub(in crate::admission) namespace: Option<&'v Value>,
    pub(in crate::admission) request: &'v Value,
    pub(in crate::admission) parameters: Option<&'v Value>,
    pub(in crate::admission) rights: &'v Rights,
}

/// Whether conditions hold, or why that cannot be told.
pub(in crate::admission) fn all_hold(conditions: &[Expression], input: &Input<'_>) -> Result<bool, String> {
    let evaluation = Evaluation::begin(input);
    evaluation
        .map_err(|error| error.to_string())?
        .all_hold(conditions)
}

/// Why a write is not allowed.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) message: String,
    /// The reason of the answer; empty for the usual one.
    pub(super) reason: String,
    /// Whether the write is refused, whatever the binding says.
    pub(super) is_certain: bool,
}

impl Policy {
    /// Everything that speaks against a write.
    pub(super) fn evaluate(&self, input: &Input<'_>) -> Vec<Denial> {
        let mut evaluation = match Evaluation::begin(input) {
            Ok(evaluation) => evaluation,
            Err(error) => return self.when_it_fails(error.to_string()),
        };
        match evaluation.all_hold(&self.conditions) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return self.when_it_fails(why),
        }
        evaluation.add_variables(self);
        let mut denials = Vec::new();
        for validation in &self.validations {
            match evaluation.run(&validation.expression) {
                Ok(Evaluated::Bool(true)) => {}
                Ok(_) => denials.push(Denial {
                    message: evaluation.message(validation),
                    reason: validation.reason.clone(),
                    is_certain: false,
                }),
                Err(why) => denials.extend(self.when_it_fails(why)),
            }
        }
        for note in &self.notes {
            // There is no audit log; that a note could be written is a promise of its own.
            if let Err(why) = evaluation.run(note) {
                let failed = self.when_it_fails(why).into_iter();
                denials.extend(failed.map(|denial| Denial {
                    is_certain: true,
                    ..denial
                }));
            }
        }
        denials
    }

    /// What follows if the policy cannot tell.
    pub(super) fn when_it_fails(&self, why: String) -> Vec<Denial> {
        match self.fails_closed {
            true => vec![Denial {
                message: why,
                reason: String::new(),
                is_certain: false,
            }],
            false => Vec::new(),
        }
    }
}

/// Expressions of one policy, evaluated for one write.
pub(super) struct Evaluation<'a> {
    object: Evaluated<'a>,
    old: Evaluated<'a>,
    namespace: Evaluated<'a>,
    request: Evaluated<'a>,
    parameters: Evaluated<'a>,
    authorizer: Evaluated<'a>,
    request_resource: Evaluated<'a>,
    variables: Vec<(&'a str, Evaluated<'a>)>,
    /// Variables that have no value, and why: it matters only to who asks for them.
    failed: Vec<(&'a str, String)>,
    budget: u64,
}

impl<'a> Evaluation<'a> {
    pub(super) fn begin(input: &Input<'a>) -> Result<Self, EvalError> {
        let (namespace, request) = &*DECLARED;
        let (authorizer, request_resource) = input.rights.values();
        let dynamic = |value: Option<&'a Value>| value.map_or(Evaluated::Null, Evaluated::dynamic);
        Ok(Self {
            object: dynamic(input.object),
            old: dynamic(input.old),
            namespace: match input.namespace {
                Some(found) => Evaluated::from_json(found, namespace)?,
                None => Evaluated::Null,
            },
            request: Evaluated::from_json(input.request, request)?,
            parameters: dynamic(input.parameters),
            authorizer,
            request_resource,
            variables: Vec::new(),
            failed: Vec::new(),
            budget: OBJECT_BUDGET,
        })
    }

    /// One that does not hold counts, whatever cannot be told of others.
    pub(super) fn all_hold(&mut self, conditions: &'a [Expression]) -> Result<bool, String> {
        let mut failed = Vec::new();
        for condition in conditions {
            match self.run(condition) {
                Ok(Evaluated::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(why) => failed.push(why),
            }
        }
        match failed.as_slice() {
            [] => Ok(true),
            [why] => Err(why.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// Evaluates the variables of a policy, each with those before it.
    pub(super) fn add_variables(&mut self, policy: &'a Policy) {
        for (name, variable) in &policy.variables {
            self.add_variable(name, variable);
        }
    }

    fn add_variable(&mut self, name: &'a str, variable: &'a Expression) {
        match self.run(variable) {
            Ok(value) => self.variables.push((name, value)),
            Err(why) => self.failed.push((name, why)),
        }
    }

    pub(super) fn run(&mut self, expression: &'a Expression) -> Result<Evaluated<'a>, String> {
        let source = &expression.source;
        let failed = |why: String| format!("expression '{source}' resulted in error: {why}");
        let program = expression.program.as_ref().map_err(String::clone)?;
        let variables = self.variables.iter().cloned();
        let values = [
            self.object.clone(),
            self.old.clone(),
            self.namespace.clone(),
            self.request.clone(),
            Evaluated::members(variables),
            self.authorizer.clone(),
            self.request_resource.clone(),
            self.parameters.clone(),
        ];
        let evaluation = program.evaluate(&values, CALL_BUDGET.min(self.budget));
        self.budget = self.budget.saturating_sub(evaluation.cost);
        evaluation.result.map_err(|error| match &error {
            EvalError::NoSuchKey(key) => match self.failed.iter().find(|(name, _)| name == key) {
                Some((name, why)) => failed(format!("composited variable {name:?} fails to evaluate: {why}")),
                None => failed(error.to_string()),
            },
            _ => failed(error.to_string()),
        })
    }

    /// What is said of a validation that does not hold: what its expression makes, its message, or itself.
    fn message(&mut self, validation: &'a Validation) -> String {
        let made = validation.message_expression.as_ref();
        let made = made.and_then(|expression| self.run(expression).ok());
        let made = made.as_ref().and_then(Evaluated::as_str).map(str::trim);
        let is_fit =
            |text: &&str| !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
        match (made.filter(is_fit), &*validation.message) {
            (Some(made), _) => made.to_owned(),
            (None, "") => format!("failed expression: {}", validation.expression.source.trim()),
            (None, message) => message.to_owned(),
        }
    }
}
