//! The paths of printer columns, scales and selectable fields: the part of kubectl's JSONPath that they use.
//!
//! ```text
//! .spec.replicas      .metadata.annotations.example\.com/a      .spec.items[0].name      .spec.items[*].name
//! .status.conditions[?(@.type=="Ready")].status
//! ```

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// A path in an object.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Counts from the end if negative.
    Index(i64),
    All,
    /// Items whose value at a path equals this, or does not.
    Where {
        path: JsonPath,
        is: bool,
        value: Value,
    },
}

impl JsonPath {
    /// Parses a path; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars().peekable();
        let mut steps = Vec::new();
        while let Some(first) = chars.next() {
            match first {
                '.' if chars.peek() == Some(&'[') => {}
                '.' => steps.push(Step::Field(name(&mut chars)?)),
                '[' => steps.push(bracket(&mut chars)?),
                _ => return None,
            }
        }
        Some(Self(steps))
    }

    /// Parses field names with a dot before each, whatever characters they contain; `None` if there is none.
    pub fn of_names(text: &str) -> Option<Self> {
        let names = text.strip_prefix('.')?.split('.');
        Some(Self(names.map(|name| Step::Field(name.to_owned())).collect()))
    }

    /// True if the path has only field names, and so leads to one place in every object.
    pub fn is_simple(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|step| matches!(step, Step::Field(_)))
    }

    /// The field names of a simple path.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The values at the path.
    pub fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![object];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.take(value)).collect();
        }
        found
    }

    /// The first value at the path.
    pub fn first<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.find(object).into_iter().next()
    }

    /// Sets a value at a simple path, creating the objects on the way.
    pub fn set(&self, object: &mut Value, value: Value) {
        let mut place = object;
        for name in self.fields() {
            if !place.is_object() {
                *place = Value::Object(Default::default());
            }
            place = &mut place[name];
        }
        *place = value;
    }
}

impl Step {
    fn take<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Self::Field(name), value) => value.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let index = match *index {
                    index if index < 0 => items.len() as i64 + index,
                    index => index,
                };
                let index = usize::try_from(index).ok();
                index.and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(members)) => members.values().collect(),
            (Self::Where { path, is, value }, Value::Array(items)) => {
                let fits = |item: &&Value| (path.first(item) == Some(value)) == *is;
                items.iter().filter(fits).collect()
            }
            _ => Vec::new(),
        }
    }
}

type Rest<'t> = Peekable<Chars<'t>>;

/// A name up to the next step; a backslash escapes the next character.
fn name(chars: &mut Rest<'_>) -> Option<String> {
    let mut name = String::new();
    while let Some(next) = chars.next_if(|next| !matches!(next, '.' | '[')) {
        match next {
            '\\' => name.push(chars.next()?),
            next => name.push(next),
        }
    }
    (!name.is_empty()).then_some(name)
}

fn bracket(chars: &mut Rest<'_>) -> Option<Step> {
    let inner = up_to_bracket(chars)?;
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(name) = quoted(inner) {
        return Some(Step::Field(name));
    }
    if let Some(filter) = inner
        .strip_prefix("?(")
        .and_then(|filter| filter.strip_suffix(')'))
    {
        return condition(filter);
    }
    inner.parse().ok().map(Step::Index)
}

/// The text up to the closing bracket, except within quotes.
fn up_to_bracket(chars: &mut Rest<'_>) -> Option<String> {
    let (mut inner, mut quote) = (String::new(), None);
    loop {
        let next = chars.next()?;
        match (quote, next) {
            (None, ']') => return Some(inner),
            (None, '"' | '\'') => quote = Some(next),
            (Some(open), next) if open == next => quote = None,
            _ => {}
        }
        inner.push(next);
    }
}

fn condition(text: &str) -> Option<Step> {
    let (left, is, right) = match (text.split_once("=="), text.split_once("!=")) {
        (Some((left, right)), _) => (left, true, right),
        (None, Some((left, right))) => (left, false, right),
        (None, None) => return None,
    };
    let right = right.trim();
    let value = match quoted(right) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(right).ok()?,
    };
    let path = JsonPath::parse(left.trim().strip_prefix('@')?)?;
    Some(Step::Where { path, is, value })
}

fn quoted(text: &str) -> Option<String> {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_evaluated_as_in_kubectl() {
        let object = json!({
            "metadata": {"annotations": {"example.com/a": "x"}},
            "spec": {"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        let check = |path: &str, expected: Value| {
            let path = JsonPath::parse(path).unwrap();
            assert_eq!(json!(path.find(&object)), expected, "{path:?}");
        };
        check(".spec.items[0].name", json!(["a"]));
        check(".spec.items[-1].n", json!([2]));
        check(".spec.items[*].name", json!(["a", "b"]));
        check(r".metadata.annotations.example\.com/a", json!(["x"]));
        check(".metadata.annotations['example.com/a']", json!(["x"]));
        check(
            r#".status.conditions[?(@.type=="Ready")].status"#,
            json!(["True"]),
        );
        check(".status.conditions[?(@.type!='Ready')].status", json!(["False"]));
        check(".spec.items[?(@.n==2)].name", json!(["b"]));
        check(".spec.nothing.here", json!([]));
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for text in ["spec", ".", "..a", ".a[", ".a[x]", ".a[?(@.b)]", ".a."] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_set_at_a_path() {
        let mut object = json!({"spec": {"a": 1}});
        JsonPath::parse(".spec.deep.replicas")
            .unwrap()
            .set(&mut object, json!(3));
        assert_eq!(object, json!({"spec": {"a": 1, "deep": {"replicas": 3}}}));
    }
}
