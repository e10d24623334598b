//! Evaluates rules for an object, from the outside in, with one cost budget. When it is used up, no further rules are
//! evaluated.

use std::collections::HashMap;

use serde_json::{Map, Value};
use watchkeeper_cel::limits::{CALL_BUDGET, OBJECT_BUDGET};
use watchkeeper_cel::{EvalError, Program, Value as Evaluated};
use watchkeeper_meta::{BadValue, FieldError, FieldErrorKind, FieldErrors, FieldPath};

use super::{Correlation, Node, Rule};
use crate::Warnings;

/// The longest message of a message expression.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The errors of the rules at a path.
pub(crate) fn errors(
    root: &Node,
    path: &FieldPath,
    object: &Value,
    live: Option<&Value>,
    warnings: &Warnings,
) -> FieldErrors {
    let mut check = Check {
        warnings,
        errors: FieldErrors::new(),
        budget: OBJECT_BUDGET,
    };
    let before = Before::found(object, live);
    // `Err` only ends the walk early; its error is already recorded.
    let _ = check.node(root, object, before, path);
    check.errors
}

/// The old state of a value.
#[derive(Clone, Copy)]
struct Before<'v> {
    /// The old value, if it can be correlated.
    own: Option<&'v Value>,
    nearest: Nearest<'v>,
}

/// The nearest enclosing value that can be correlated.
#[derive(Clone, Copy)]
enum Nearest<'v> {
    /// The new and the old value.
    Values(&'v Value, &'v Value),
    /// True if they are equal, computed once for all nested values.
    Same(bool),
}

impl<'v> Before<'v> {
    /// For a value that is correlated by name or key. If it has no old value it is new.
    fn found(now: &'v Value, then: Option<&'v Value>) -> Self {
        Self {
            own: then,
            nearest: then.map_or(Nearest::Same(false), |then| Nearest::Values(now, then)),
        }
    }

    /// For everything within a value whose items cannot be correlated.
    fn lost(self) -> Self {
        Self {
            own: None,
            nearest: Nearest::Same(self.is_same()),
        }
    }

    fn is_same(self) -> bool {
        match self.nearest {
            Nearest::Values(now, then) => now == then,
            Nearest::Same(is_same) => is_same,
        }
    }
}

/// A value, its rules, and its path.
#[derive(Clone, Copy)]
struct Site<'v> {
    node: &'v Node,
    value: &'v Value,
    before: Before<'v>,
    path: &'v FieldPath,
}

impl Site<'_> {
    /// A rule that could not be evaluated: the error shows the type instead of the value.
    fn not_evaluated(self, why: String) -> FieldError {
        FieldError::invalid(self.path, &*self.node.type_name, why)
    }
}

/// Ends the check.
struct Ended;

struct Check<'w> {
    warnings: &'w Warnings,
    errors: FieldErrors,
    budget: u64,
}

impl Check<'_> {
    fn node(
        &mut self,
        node: &Node,
        value: &Value,
        before: Before<'_>,
        path: &FieldPath,
    ) -> Result<(), Ended> {
        if value.is_null() {
            return Ok(());
        }
        self.rules(Site {
            node,
            value,
            before,
            path,
        })?;
        for nested in &node.all_of {
            self.node(nested, value, before, path)?;
        }
        match value {
            Value::Array(items) => self.items(node, items, before, path),
            Value::Object(members) => self.members(node, members, before, path),
            _ => Ok(()),
        }
    }

    fn members(
        &mut self,
        node: &Node,
        members: &Map<String, Value>,
        before: Before<'_>,
        path: &FieldPath,
    ) -> Result<(), Ended> {
        if node.properties.is_empty() && node.additional.is_none() {
            return Ok(());
        }
        let lost = (node.correlation != Correlation::Names).then(|| before.lost());
        for (name, member) in members {
            let known = node.properties.get(name);
            let (inner, path) = match (known, &node.additional) {
                (Some(inner), _) => (inner, path.child(name)),
                (None, Some(inner)) => (&**inner, path.key(name)),
                (None, None) => continue,
            };
            let then = || before.own.and_then(|before| before.get(name));
            let before = lost.unwrap_or_else(|| Before::found(member, then()));
            self.node(inner, member, before, &path)?;
        }
        Ok(())
    }

    fn items(
        &mut self,
        node: &Node,
        items: &[Value],
        before: Before<'_>,
        path: &FieldPath,
    ) -> Result<(), Ended> {
        let Some(inner) = &node.items else { return Ok(()) };
        let Correlation::Keys(keys) = &node.correlation else {
            let before = before.lost();
            let mut items = items.iter().enumerate();
            return items.try_for_each(|(index, item)| self.node(inner, item, before, &path.index(index)));
        };
        let old = before.own.and_then(Value::as_array).into_iter().flatten();
        let old: HashMap<String, &Value> = old.map(|item| (identity(keys, item), item)).collect();
        for (index, item) in items.iter().enumerate() {
            let then = old.get(&identity(keys, item)).copied();
            self.node(inner, item, Before::found(item, then), &path.index(index))?;
        }
        Ok(())
    }

    fn rules(&mut self, site: Site<'_>) -> Result<(), Ended> {
        let node = site.node;
        if node.rules.is_empty() {
            return Ok(());
        }
        let old = site.before.own.filter(|old| !old.is_null());
        let read = |json| Evaluated::from_json(json, &node.declared);
        let (now, then) = match (read(site.value), old.map(read).transpose()) {
            (Ok(now), Ok(then)) => (now, then),
            (Err(error), _) | (_, Err(error)) => {
                self.errors.push(site.not_evaluated(error.to_string()));
                return Ok(());
            }
        };
        for rule in &node.rules {
            if rule.uses_old && then.is_none() && !rule.has_optional_old {
                continue;
            }
            let then = match rule.has_optional_old {
                true => Evaluated::Optional(then.clone().map(Into::into)),
                false => then.clone().unwrap_or(Evaluated::Null),
            };
            self.rule(site, rule, &[now.clone(), then])?;
        }
        Ok(())
    }

    fn rule(&mut self, site: Site<'_>, rule: &Rule, variables: &[Evaluated<'_>]) -> Result<(), Ended> {
        let shown = &rule.shown;
        let why = match self.run(site, &rule.program, variables)? {
            Ok(Evaluated::Bool(true)) => return Ok(()),
            Ok(_) => return self.fails(site, rule, variables),
            Err(error @ EvalError::NoSuchOverload) => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: \
                 {shown}"
            ),
            Err(error @ EvalError::CostExceeded) => {
                self.errors.push(site.not_evaluated(format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                )));
                return Err(Ended);
            }
            Err(error) => format!("{error} evaluating rule: {shown}"),
        };
        self.errors.push(site.not_evaluated(why));
        Ok(())
    }

    /// Evaluates, and charges the cost.
    fn run<'a>(
        &mut self,
        site: Site<'_>,
        program: &'a Program,
        variables: &[Evaluated<'a>],
    ) -> Result<Result<Evaluated<'a>, EvalError>, Ended> {
        let evaluation = program.evaluate(variables, CALL_BUDGET);
        match self.budget.checked_sub(evaluation.cost) {
            Some(rest) => self.budget = rest,
            None => {
                self.errors.push(site.not_evaluated(OUT_OF_BUDGET.to_owned()));
                return Err(Ended);
            }
        }
        Ok(evaluation.result)
    }

    /// Reports a violated rule. If nothing has changed, it becomes a warning (ratcheting), unless it is a transition
    /// rule.
    fn fails(&mut self, site: Site<'_>, rule: &Rule, variables: &[Evaluated<'_>]) -> Result<(), Ended> {
        let at = match &rule.field_path {
            Some(below) => site.path.child(below),
            None => site.path.clone(),
        };
        let made = match &rule.message_expression {
            Some(program) => self.run(site, program, variables)?.ok().and_then(message),
            None => None,
        };
        let detail = made
            .or_else(|| rule.message.clone())
            .unwrap_or_else(|| format!("failed rule: {}", rule.shown));
        let error = error(rule.reason, &at, site.value, detail);
        match !rule.uses_old && site.before.is_same() {
            true => self.warnings.add(error.to_string()),
            false => self.errors.push(error),
        }
        Ok(())
    }
}

/// The identity of an item by its keys.
fn identity(keys: &[String], item: &Value) -> String {
    let parts = keys.iter().map(|key| item.get(key).map(Value::to_string));
    parts.map(|part| part.unwrap_or_default() + ",").collect()
}

/// The message of an expression, if it is one line of limited length.
fn message(made: Evaluated<'_>) -> Option<String> {
    let text = made.as_str()?.trim();
    let is_fit = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains(['\n', '\r']);
    is_fit.then(|| text.to_owned())
}

fn error(reason: FieldErrorKind, path: &FieldPath, value: &Value, detail: String) -> FieldError {
    match reason {
        FieldErrorKind::Forbidden => FieldError::forbidden(path, detail),
        FieldErrorKind::Required => FieldError::required(path, detail),
        FieldErrorKind::Duplicate => FieldError {
            value: shown(value),
            ..FieldError::duplicate(path, Value::Null)
        },
        _ => FieldError {
            value: shown(value),
            ..FieldError::invalid(path, Value::Null, detail)
        },
    }
}

/// Scalars are shown, objects and lists are not.
fn shown(value: &Value) -> BadValue {
    match value {
        Value::Object(_) | Value::Array(_) => BadValue::Omitted,
        value => BadValue::Json(value.clone()),
    }
}
