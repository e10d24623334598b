//! Compiles the rules of a schema and reports their errors with Kubernetes' texts: compile errors, transition rules
//! on uncorrelatable values, and excessive cost.

use std::collections::BTreeMap;

use serde_json::Value;
use watchkeeper_cel::limits::OBJECT_BUDGET;
use watchkeeper_cel::{Declared, Environment, Program, Shape, Type};
use watchkeeper_meta::{BadValue, FieldError, FieldErrorKind, FieldErrors, FieldPath, go_json};

use super::declare::{Typed, declare, map_keys};
use super::field_path::normalize;
use super::{Correlation, Node, RULES, Rule, evaluate};
use crate::Warnings;

/// The estimated cost limit of one rule.
const RULE_LIMIT: u64 = OBJECT_BUDGET;

/// The estimated cost limit of all rules of a schema.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// The number of most expensive rules named if the total is too high.
const MAX_NAMED: usize = 4;

/// The tree of rules of a schema at a path, if it has any, and their errors.
pub(crate) fn compile(path: &FieldPath, schema: &Value) -> (Option<Node>, FieldErrors) {
    let mut compiler = Compiler::default();
    let place = Place {
        path: path.clone(),
        count: Some(1),
        uncorrelatable: None,
        is_root: true,
    };
    let root = compiler.node(schema, schema, &place);
    compiler.check_total(path);
    (root, compiler.errors)
}

/// The position of a schema node.
#[derive(Clone)]
struct Place {
    path: FieldPath,
    /// The maximum number of values of this node; `None` if unbounded.
    count: Option<u64>,
    /// The enclosing list or map whose items cannot be correlated.
    uncorrelatable: Option<FieldPath>,
    is_root: bool,
}

impl Place {
    fn below(&self, path: FieldPath) -> Self {
        Self {
            path,
            is_root: false,
            ..self.clone()
        }
    }
}

#[derive(Default)]
struct Compiler {
    errors: FieldErrors,
    total: u64,
    costs: Vec<(u64, FieldPath)>,
}

impl Compiler {
    /// The rules of a schema and its nested ones. In `allOf` and the like, the types are those of the enclosing
    /// schema.
    fn node(&mut self, schema: &Value, types: &Value, place: &Place) -> Option<Node> {
        let correlation = correlation(types);
        let mut within = place.clone();
        if correlation == Correlation::None && within.uncorrelatable.is_none() {
            within.uncorrelatable = Some(place.path.clone());
        }
        let properties = self.properties(schema, types, &within);
        let additional = self.inner(schema, types, "additionalProperties", "maxProperties", &within);
        let items = self.inner(schema, types, "items", "maxItems", &within);
        let mut all_of = Vec::new();
        for (index, inner) in schema["allOf"].as_array().into_iter().flatten().enumerate() {
            let path = place.path.child("allOf").index(index);
            let place = Place {
                path,
                ..place.clone()
            };
            all_of.extend(self.node(inner, types, &place));
        }
        let (declared, rules) = self.rules(schema, types, place);
        let node = Node {
            declared,
            type_name: types["type"].as_str().unwrap_or_default().to_owned(),
            rules,
            properties,
            additional: additional.map(Box::new),
            items: items.map(Box::new),
            all_of,
            correlation,
        };
        let is_empty = node.rules.is_empty() && node.properties.is_empty() && node.all_of.is_empty();
        if is_empty && node.additional.is_none() && node.items.is_none() {
            return None;
        }
        self.check_default(&node, schema, place);
        Some(node)
    }

    /// Checks that a default satisfies the rules.
    fn check_default(&mut self, node: &Node, schema: &Value, place: &Place) {
        let Some(default) = schema.get("default").filter(|default| !default.is_null()) else {
            return;
        };
        let path = place.path.child("default");
        let found = evaluate::errors(node, &path, default, None, &Warnings::default());
        self.errors.append(found);
    }

    fn properties(&mut self, schema: &Value, types: &Value, place: &Place) -> BTreeMap<String, Node> {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let nodes = properties.filter_map(|(name, inner)| {
            let path = place.path.child("properties").key(name);
            let node = self.node(inner, &types["properties"][name], &place.below(path))?;
            Some((name.clone(), node))
        });
        nodes.collect()
    }

    /// The rules of items or values, whose number is bounded by a keyword.
    fn inner(
        &mut self,
        schema: &Value,
        types: &Value,
        word: &str,
        most: &str,
        place: &Place,
    ) -> Option<Node> {
        let inner = schema.get(word).filter(|inner| inner.is_object())?;
        let count = place
            .count
            .zip(types[most].as_u64())
            .map(|(count, most)| count.saturating_mul(most));
        let place = Place {
            count,
            ..place.below(place.path.child(word))
        };
        self.node(inner, &types[word], &place)
    }

    fn rules(&mut self, schema: &Value, types: &Value, place: &Place) -> (Declared, Vec<Rule>) {
        let mut compiled = Vec::new();
        let rules = schema[RULES].as_array().map_or(&[][..], Vec::as_slice);
        if rules.is_empty() {
            return (Declared::dynamic(), compiled);
        }
        let is_resource = place.is_root || types["x-kubernetes-embedded-resource"] == true;
        let at = place.path.child(RULES);
        let Some(typed) = declare(types, is_resource, "selfType") else {
            let why = format!(
                "rule declared on schema that does not support validation rules type: '{}' \
                 x-kubernetes-preserve-unknown-fields: '{}'",
                types["type"].as_str().unwrap_or_default(),
                types["x-kubernetes-preserve-unknown-fields"] == true
            );
            self.errors.push(FieldError::internal(&at, why));
            return (Declared::dynamic(), compiled);
        };
        for (index, rule) in rules.iter().enumerate() {
            compiled.extend(self.rule(rule, types, &typed, &at.index(index), place));
        }
        (typed.declared, compiled)
    }

    fn rule(
        &mut self,
        rule: &Value,
        schema: &Value,
        typed: &Typed,
        at: &FieldPath,
        place: &Place,
    ) -> Option<Rule> {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let has_optional_old = rule["optionalOldSelf"] == true;
        let environment = environment(&typed.declared, has_optional_old);
        let path = at.child("rule");
        let program = match checked(&environment, text("rule"), &Type::Bool) {
            Ok(program) => program,
            Err(why) => {
                self.errors.push(invalid(&path, rule, why));
                return None;
            }
        };
        let count = place.count.unwrap_or_else(|| typed.max_count());
        self.charge(
            &path,
            "estimated rule cost",
            program.max_cost().saturating_mul(count),
        );
        let message_expression = self.message_expression(rule, &environment, at);
        let uses_old = program.uses(1);
        if let Some(above) = place.uncorrelatable.as_ref().filter(|_| uses_old) {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
            self.errors.push(FieldError::invalid(&path, text("rule"), why));
        }
        if let (false, Some(stated)) = (uses_old, rule.get("optionalOldSelf").filter(|it| !it.is_null())) {
            let why = "may not be set if oldSelf is not used in rule";
            let at = at.child("optionalOldSelf");
            self.errors.push(FieldError::invalid(&at, stated.clone(), why));
        }
        let message = Some(text("message").trim().to_owned()).filter(|message| !message.is_empty());
        Some(Rule {
            program,
            message_expression,
            shown: message.clone().unwrap_or_else(|| text("rule").trim().to_owned()),
            message,
            reason: reason(text("reason")),
            field_path: normalize(text("fieldPath"), schema),
            uses_old,
            has_optional_old,
        })
    }

    fn message_expression(
        &mut self,
        rule: &Value,
        environment: &Environment,
        at: &FieldPath,
    ) -> Option<Program> {
        let source = rule["messageExpression"].as_str()?;
        if source.trim().is_empty() {
            return None;
        }
        let path = at.child("messageExpression");
        match checked(environment, source, &Type::String) {
            Ok(program) => {
                self.charge(&path, "estimated messageExpression cost", program.max_cost());
                Some(program)
            }
            Err(why) => {
                self.errors.push(invalid(&path, rule, why));
                None
            }
        }
    }

    /// Records the estimated cost of an expression.
    fn charge(&mut self, path: &FieldPath, name: &str, cost: u64) {
        if cost > RULE_LIMIT {
            self.errors
                .push(FieldError::forbidden(path, too_expensive(name, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        self.costs.push((cost, path.clone()));
    }

    fn check_total(&mut self, path: &FieldPath) {
        if self.total <= SCHEMA_LIMIT {
            return;
        }
        self.costs.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        let named = self.costs.iter().take(MAX_NAMED).map(|(_, path)| {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            FieldError::forbidden(path, why)
        });
        self.errors.extend(named);
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let why = too_expensive(name, self.total, SCHEMA_LIMIT);
        self.errors.push(FieldError::forbidden(path, why));
    }
}

fn environment(declared: &Declared, has_optional_old: bool) -> Environment {
    let old = match has_optional_old {
        true => Declared::plain(Shape::Optional(declared.clone().into())),
        false => declared.clone(),
    };
    Environment::new()
        .declare("self", declared.clone())
        .declare("oldSelf", old)
}

/// A program of the required type: `bool` for a rule, `string` for a message expression.
fn checked(environment: &Environment, source: &str, wanted: &Type) -> Result<Program, String> {
    let is_rule = *wanted == Type::Bool;
    match environment.compile(source) {
        Err(error) if is_rule => Err(format!("compilation failed: {error}")),
        Err(error) => Err(format!("messageExpression compilation failed: {error}")),
        Ok(program) if program.result_type() == wanted => Ok(program),
        Ok(_) if is_rule => Err("cel expression must evaluate to a bool".to_owned()),
        Ok(_) => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

fn correlation(schema: &Value) -> Correlation {
    match schema["type"].as_str() {
        Some("array") if schema["x-kubernetes-list-type"] == "map" => Correlation::Keys(map_keys(schema)),
        Some("array") => Correlation::None,
        _ if schema["x-kubernetes-map-type"] == "atomic" => Correlation::None,
        _ => Correlation::Names,
    }
}

fn reason(text: &str) -> FieldErrorKind {
    match text {
        "FieldValueForbidden" => FieldErrorKind::Forbidden,
        "FieldValueRequired" => FieldErrorKind::Required,
        "FieldValueDuplicate" => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    }
}

/// By how much a cost limit is exceeded; beyond a hundred times, the factor is not stated.
fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let factor = match cost as f64 / limit as f64 {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// An invalid rule, shown as Go prints its struct.
fn invalid(path: &FieldPath, rule: &Value, why: String) -> FieldError {
    let text = |name: &str| go_json(&Value::from(rule[name].as_str().unwrap_or_default()));
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        go_json(&rule["reason"]),
        text("fieldPath"),
        go_json(&rule["optionalOldSelf"]),
    );
    FieldError {
        value: BadValue::Printed(shown.into()),
        ..FieldError::invalid(path, Value::Null, why)
    }
}
