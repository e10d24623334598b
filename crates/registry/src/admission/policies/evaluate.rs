//! Evaluates a policy for a write.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;
use watchkeeper_cel::limits::{CALL_BUDGET, OBJECT_BUDGET};
use watchkeeper_cel::{Declared, EvalError, Value as Evaluated};
use watchkeeper_kinds::expressions::{Expression, declared};

use super::authorizer::CelAuthorizer;
use super::parameters::Misconfigured;
use super::policy::{Policy, Validation};

/// The limit on a message from `messageExpression`.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The types of `namespaceObject` and `request`, which are the same for all policies.
static DECLARED: LazyLock<(Declared, Declared)> = LazyLock::new(declared);

/// The input of expressions.
pub(in crate::admission) struct Input<'v> {
    pub(in crate::admission) object: Option<&'v Value>,
    pub(in crate::admission) old: Option<&'v Value>,
    pub(in crate::admission) namespace: Option<&'v Value>,
    pub(in crate::admission) request: &'v Value,
    pub(in crate::admission) parameters: Option<&'v Value>,
    pub(in crate::admission) authorizer: &'v CelAuthorizer,
}

/// True if all conditions hold; an error if one cannot be evaluated.
pub(in crate::admission) fn all_hold(conditions: &[Expression], input: &Input<'_>) -> Result<bool, String> {
    let evaluation = Evaluation::begin(input);
    evaluation
        .map_err(|error| error.to_string())?
        .all_hold(conditions)
}

/// A denial of a write.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) message: String,
    /// The reason in the Status; empty for the default.
    pub(super) reason: String,
    /// True if the write is rejected regardless of the binding's actions.
    pub(super) is_unconditional: bool,
    /// False if not the binding but the policy itself is at fault.
    pub(super) names_binding: bool,
    /// The place of the validation in the policy.
    pub(super) index: usize,
}

/// The values that a policy adds to the audit event, by annotation key.
#[derive(Debug, Default)]
pub(super) struct Notes(pub(super) BTreeMap<String, Vec<String>>);

impl Notes {
    /// Adds the value of an annotation, unless it is empty or there already.
    fn add(&mut self, key: &str, value: &Evaluated<'_>) {
        let text = value.as_str().map(str::trim).unwrap_or_default();
        if text.is_empty() {
            return;
        }
        let values = self.0.entry(key.to_owned()).or_default();
        if !values.iter().any(|known| known == text) {
            values.push(text.to_owned());
        }
    }
}

impl Policy {
    /// All denials of a write.
    pub(super) fn evaluate(&self, input: &Input<'_>, notes: &mut Notes) -> Vec<Denial> {
        let mut evaluation = match Evaluation::begin(input) {
            Ok(evaluation) => evaluation,
            Err(error) => return self.on_error(error.to_string()),
        };
        match evaluation.all_hold(&self.conditions) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return self.on_error(why),
        }
        evaluation.add_variables(self);
        let mut denials = Vec::new();
        for (index, validation) in self.validations.iter().enumerate() {
            match evaluation.run(&validation.expression) {
                Ok(Evaluated::Bool(true)) => {}
                Ok(_) => denials.push(Denial {
                    message: evaluation.message(validation),
                    reason: validation.reason.clone(),
                    is_unconditional: false,
                    names_binding: true,
                    index,
                }),
                Err(why) => {
                    let failed = self.on_error(why).into_iter();
                    denials.extend(failed.map(|denial| Denial { index, ..denial }));
                }
            }
        }
        for (key, note) in &self.notes {
            match evaluation.run(note) {
                Ok(value) => notes.add(key, &value),
                // An evaluation error counts, whatever the validations say.
                Err(why) => {
                    let failed = self.on_error(why).into_iter();
                    denials.extend(failed.map(|denial| Denial {
                        is_unconditional: true,
                        ..denial
                    }));
                }
            }
        }
        denials
    }

    /// The denials that follow from an error, by the failure policy.
    pub(super) fn on_error(&self, why: String) -> Vec<Denial> {
        match self.fails_closed {
            true => vec![Denial {
                message: why,
                reason: String::new(),
                is_unconditional: false,
                names_binding: true,
                index: 0,
            }],
            false => Vec::new(),
        }
    }

    /// The denials that follow from missing parameters, whatever the actions of the binding.
    pub(super) fn on_misconfiguration(&self, why: &Misconfigured) -> Vec<Denial> {
        let denials = self.on_error(why.message()).into_iter();
        let denials = denials.map(|denial| Denial {
            is_unconditional: true,
            names_binding: why.names_binding(),
            ..denial
        });
        denials.collect()
    }
}

/// The evaluation of one policy for one write.
pub(super) struct Evaluation<'a> {
    object: Evaluated<'a>,
    old: Evaluated<'a>,
    namespace: Evaluated<'a>,
    request: Evaluated<'a>,
    parameters: Evaluated<'a>,
    authorizer: Evaluated<'a>,
    request_resource: Evaluated<'a>,
    variables: Vec<(&'a str, Evaluated<'a>)>,
    /// Variables that failed, with their errors. They matter only to expressions that use them.
    failed: Vec<(&'a str, String)>,
    budget: u64,
}

impl<'a> Evaluation<'a> {
    pub(super) fn begin(input: &Input<'a>) -> Result<Self, EvalError> {
        let (namespace, request) = &*DECLARED;
        let (authorizer, request_resource) = input.authorizer.values();
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

    /// A condition that is false decides, whatever errors others have.
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

    /// Evaluates the variables of a policy in order; each may use the previous ones.
    pub(super) fn add_variables(&mut self, policy: &'a Policy) {
        for (name, variable) in &policy.variables {
            self.add_variable(name, variable);
        }
    }

    fn add_variable(&mut self, name: &'a str, variable: &'a Expression) {
        match self.evaluated(variable) {
            Ok(value) => self.variables.push((name, value)),
            Err(why) => self.failed.push((name, why)),
        }
    }

    /// Evaluates an expression; the error quotes it.
    pub(super) fn run(&mut self, expression: &'a Expression) -> Result<Evaluated<'a>, String> {
        let source = &expression.source;
        let made = self.evaluated(expression);
        made.map_err(|why| match expression.program {
            Ok(_) => format!("expression '{source}' resulted in error: {why}"),
            Err(_) => why,
        })
    }

    /// Evaluates an expression; the error does not quote it.
    fn evaluated(&mut self, expression: &'a Expression) -> Result<Evaluated<'a>, String> {
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
                Some((name, why)) => format!("composited variable {name:?} fails to evaluate: {why}"),
                None => error.to_string(),
            },
            _ => error.to_string(),
        })
    }

    /// The message of a failed validation: that of its expression, its message, or the expression itself.
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
