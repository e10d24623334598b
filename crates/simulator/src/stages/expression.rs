//! Expressions of selectors and delays: the part of jq that stages use.
//!
//! ```text
//! .metadata.annotations["example.com/delay"]
//! .status.conditions.[] | select( .type == "Ready" ) | .status
//! ```
//!
//! Steps are fields, indexes, `[]` for every element, and `select` with one comparison. Anything else is refused.

use serde_json::Value;

use super::template::{TemplateError, refused};

/// A parsed expression: it yields any number of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expression(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
    Each,
    Select(Vec<Step>, bool, Value),
}

impl Expression {
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        let not_understood = || refused(format!("expression {text:?} is not understood"));
        let mut steps = Vec::new();
        for part in text.split('|').map(str::trim) {
            match part.strip_prefix("select").map(str::trim) {
                Some(inner) => steps.push(select(inner).ok_or_else(not_understood)?),
                None => steps.extend(path(part).ok_or_else(not_understood)?),
            }
        }
        Ok(Self(steps))
    }

    /// The values in an object; null is none.
    pub(super) fn values<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        values(&self.0, object)
    }

    /// The first value as text.
    pub(super) fn text(&self, object: &Value) -> Option<String> {
        let first = self.values(object).into_iter().next()?;
        Some(super::functions::text(first))
    }
}

fn values<'a>(steps: &[Step], object: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![object];
    for step in steps {
        found = found.into_iter().flat_map(|value| step.of(value)).collect();
    }
    found.retain(|value| !value.is_null());
    found
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => value.get(*index).into_iter().collect(),
            Self::Each => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(members) => members.values().collect(),
                _ => Vec::new(),
            },
            Self::Select(path, equal, wanted) => {
                let holds = (values(path, value) == [wanted]) == *equal;
                holds.then_some(value).into_iter().collect()
            }
        }
    }
}

/// `( .type == "Ready" )`
fn select(text: &str) -> Option<Step> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let (left, right, equal) = match inner.split_once("==") {
        Some((left, right)) => (left, right, true),
        None => inner.split_once("!=").map(|(left, right)| (left, right, false))?,
    };
    Some(Step::Select(
        path(left.trim())?,
        equal,
        serde_json::from_str(right.trim()).ok()?,
    ))
}

/// `.a.b["c"][0].[]`
fn path(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.strip_prefix('.')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(bracket) = rest.strip_prefix('[') {
            let (inner, after) = bracket.split_once(']')?;
            steps.push(match inner.trim() {
                "" => Step::Each,
                quoted if quoted.starts_with('"') => Step::Field(serde_json::from_str(quoted).ok()?),
                index => Step::Index(index.parse().ok()?),
            });
            rest = after;
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_plain = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
        if name.is_empty() || !name.chars().all(is_plain) {
            return None;
        }
        steps.push(Step::Field(name.to_owned()));
        rest = after;
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_and_selections_are_followed() {
        let node = json!({"metadata": {"annotations": {"a.b/c": "5s"}, "name": "n"}, "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        let check = |text: &str, expected: Value| {
            let expression = Expression::parse(text).unwrap();
            assert_eq!(json!(expression.values(&node)), expected, "{text}");
        };
        check(".metadata.name", json!(["n"]));
        check(".metadata.none", json!([]));
        check(r#".metadata.annotations["a.b/c"]"#, json!(["5s"]));
        check(".status.conditions.[].type", json!(["Ready", "Other"]));
        check(".status.conditions[1].type", json!(["Other"]));
        check(
            r#".status.conditions.[] | select( .type == "Ready" ) | .status"#,
            json!(["True"]),
        );
        check(
            r#".status.conditions.[] | select( .type != "Ready" ) | .status"#,
            json!(["False"]),
        );
        check(".", json!([node]));
    }

    #[test]
    fn other_jq_is_refused() {
        for text in [
            "metadata",
            ".a | length",
            ".a // .b",
            ".a[",
            "select(.a)",
            ".a | map(.b)",
            ".a b",
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("expression {text:?} is not understood")
            );
        }
    }
}
