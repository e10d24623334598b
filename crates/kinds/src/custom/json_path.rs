//! The paths of printer columns, scales and selectable fields, with the grammar and the meaning of client-go's JSONPath.
//!
//! ```text
//! .spec.replicas      .metadata.annotations.example\.com/a      .spec.items[0].name      .spec.items[*].name
//! .status.conditions[?(@.type=="Ready")].status      .spec.items[1:3]      .spec['a','b']      ..image
//! ```
//!
//! A missing field is nothing. What client-go cannot evaluate makes the whole path lead to nothing: an item that a list
//! does not have, an index of something that is no list, a comparison of different types. So does a path that passes more
//! than ten thousand values, because descents behind each other find the same values again and again.

use std::cell::Cell;
use std::cmp::Ordering;
use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// The number of values that one evaluation of a path may pass.
pub(super) const MAX_VALUES: usize = 10_000;

/// A path in an object.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// The fields of an object, the items of a list.
    All,
    Items(Slice),
    /// The values at each of these paths.
    Union(Vec<JsonPath>),
    /// The items that satisfy a condition.
    Where(Condition),
    /// Every object and list from here on, parents first.
    Deep,
}

/// A range of items. Negative positions count from the end.
#[derive(Clone, Debug, PartialEq)]
struct Slice {
    from: Option<i64>,
    to: End,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// One item.
    AfterFirst,
    Before(i64),
    Open,
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    left: JsonPath,
    /// Without one, something must be at the path.
    comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Is,
    IsNot,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars().peekable();
        let mut steps = Vec::new();
        while let Some(first) = chars.next() {
            match first {
                '.' if chars.next_if_eq(&'.').is_some() => {
                    let is_repeated = steps.last() == Some(&Step::Deep);
                    steps.push((!is_repeated).then_some(Step::Deep)?);
                    if chars.peek().is_some_and(|next| !matches!(next, '[' | '.')) {
                        steps.push(field(&mut chars)?);
                    }
                }
                '.' if chars.peek() == Some(&'[') => {}
                '.' => steps.push(field(&mut chars)?),
                '[' => bracket(&mut chars, &mut steps)?,
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
        self.find_within(object, &Budget::new(MAX_VALUES))
    }

    /// The values at the path, or nothing if there are more on the way than the budget allows.
    pub(super) fn find_within<'v>(&self, object: &'v Value, budget: &Budget) -> Vec<&'v Value> {
        self.evaluate(vec![object], budget).unwrap_or_default()
    }

    /// The first value at the path.
    pub fn first<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.find(object).into_iter().next()
    }

    /// The values at the path from several places; `None` if it cannot be evaluated.
    fn evaluate<'v>(&self, from: Vec<&'v Value>, budget: &Budget) -> Option<Vec<&'v Value>> {
        self.0
            .iter()
            .try_fold(from, |found, step| step.take(found, budget))
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

/// The number of values that may still be passed.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new(values: usize) -> Self {
        Self(Cell::new(values))
    }

    pub(super) fn left(&self) -> usize {
        self.0.get()
    }

    /// `None` if there are too few left. Nothing is left then.
    fn spend(&self, values: usize) -> Option<()> {
        let left = self.0.get().checked_sub(values);
        self.0.set(left.unwrap_or_default());
        left.map(drop)
    }
}

impl Step {
    fn take<'v>(&self, from: Vec<&'v Value>, budget: &Budget) -> Option<Vec<&'v Value>> {
        let mut found = Vec::new();
        if let Self::Union(paths) = self {
            for path in paths {
                budget.spend(from.len())?;
                found.extend(path.evaluate(from.clone(), budget)?);
            }
            return Some(found);
        }
        for value in from.into_iter().filter(|value| !value.is_null()) {
            budget.spend(1)?;
            self.take_one(value, &mut found, budget)?;
        }
        Some(found)
    }

    fn take_one<'v>(&self, value: &'v Value, found: &mut Vec<&'v Value>, budget: &Budget) -> Option<()> {
        match (self, value) {
            (Self::Field(name), value) => found.extend(value.get(name)),
            (Self::All, Value::Array(items)) => found.extend(items),
            (Self::All, Value::Object(members)) => found.extend(members.values()),
            (Self::Items(slice), Value::Array(items)) => found.extend(slice.of(items)?),
            (Self::Where(condition), Value::Array(items)) => {
                for item in items {
                    found.extend(condition.holds(item, budget)?.then_some(item));
                }
            }
            (Self::Items(_) | Self::Where(_), _) => return None,
            (Self::Deep, value) => descend(value, found, budget)?,
            (Self::All | Self::Union(_), _) => {}
        }
        Some(())
    }
}

/// The depth was limited when the object was read.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>, budget: &Budget) -> Option<()> {
    budget.spend(1)?;
    match value {
        Value::Array(items) => {
            found.push(value);
            items.iter().try_for_each(|below| descend(below, found, budget))
        }
        Value::Object(members) => {
            found.push(value);
            members
                .values()
                .try_for_each(|below| descend(below, found, budget))
        }
        _ => Some(()),
    }
}

impl Slice {
    fn of<'v>(&self, items: &'v [Value]) -> Option<Vec<&'v Value>> {
        let length = i64::try_from(items.len()).ok()?;
        let from_end = |position: i64| if position < 0 { position + length } else { position };
        let first = self.from.unwrap_or_default();
        let from = from_end(first);
        let to = match self.to {
            // After the last item is not before the first.
            End::AfterFirst if first == -1 => length,
            End::AfterFirst => from_end(first + 1),
            End::Before(position) => from_end(position),
            End::Open => length,
        };
        if from == to {
            return Some(Vec::new());
        }
        if !(0..length).contains(&from) || !(from..=length).contains(&to) {
            return None;
        }
        let step = usize::try_from(self.step.unwrap_or(1))
            .ok()
            .filter(|step| *step > 0)?;
        let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
        Some(items[from..to].iter().step_by(step).collect())
    }

    /// `3`, `-1`, `1:3`, `:2`, `::2`.
    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| match text {
            "" => Some(None),
            text if text.starts_with('+') => None,
            text => text.parse().ok().map(Some),
        };
        let parts: Vec<Option<i64>> = text.split(':').map(number).collect::<Option<_>>()?;
        let open = |end: Option<i64>| end.map_or(End::Open, End::Before);
        let (from, to, step) = match parts[..] {
            [from] => (from, End::AfterFirst, None),
            [from, to] => (from, open(to), None),
            [from, to, step] => (from, open(to), step),
            _ => return None,
        };
        Some(Self { from, to, step })
    }
}

impl Condition {
    /// `None` if the sides cannot be compared.
    fn holds(&self, item: &Value, budget: &Budget) -> Option<bool> {
        budget.spend(1)?;
        let left = self.left.evaluate(vec![item], budget);
        let Some((comparison, right)) = &self.comparison else {
            return Some(left.is_some_and(|left| !left.is_empty()));
        };
        let right = match right {
            Operand::Path(path) => path.evaluate(vec![item], budget)?,
            Operand::Literal(value) => vec![value],
        };
        match (&left?[..], &right[..]) {
            ([], _) | (_, []) => Some(false),
            ([left], [right]) => comparison.holds(left, right),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let Some(at) = text.find(['!', '<', '>', '=']).filter(|at| *at > 0) else {
            return Some(Self {
                left: current(text)?,
                comparison: None,
            });
        };
        let (left, rest) = text.split_at(at);
        let right = rest.trim_start_matches(['!', '<', '>', '=']);
        let comparison = Comparison::parse(&rest[..rest.len() - right.len()])?;
        Some(Self {
            left: current(left)?,
            comparison: Some((comparison, Operand::parse(right.trim())?)),
        })
    }
}

impl Operand {
    fn parse(text: &str) -> Option<Self> {
        if let Some(text) = quoted(text) {
            return Some(Self::Literal(text.into()));
        }
        match serde_json::from_str(text) {
            Ok(literal @ (Value::Number(_) | Value::Bool(_))) => Some(Self::Literal(literal)),
            _ => current(text).map(Self::Path),
        }
    }
}

impl Comparison {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "==" => Self::Is,
            "!=" => Self::IsNot,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// `None` for values of different types.
    fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        let order = match (left, right) {
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) if matches!(self, Self::Is | Self::IsNot) => {
                left.cmp(right)
            }
            (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
                match (left.as_i64(), right.as_i64()) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    _ => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
                }
            }
            _ => return None,
        };
        Some(match self {
            Self::Is => order == Ordering::Equal,
            Self::IsNot => order != Ordering::Equal,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
        })
    }
}

type Rest<'t> = Peekable<Chars<'t>>;

/// A path from the current item.
fn current(text: &str) -> Option<JsonPath> {
    JsonPath::parse(text.trim().strip_prefix('@')?)
}

/// A name up to the next step, or `*`; a backslash escapes the next character.
fn field(chars: &mut Rest<'_>) -> Option<Step> {
    if chars.peek() == Some(&'*') {
        let mut after = chars.clone();
        after.next();
        if matches!(after.peek(), None | Some('.' | '[')) {
            *chars = after;
            return Some(Step::All);
        }
    }
    let mut name = String::new();
    while let Some(next) = chars.next_if(|next| !matches!(next, '.' | '[')) {
        match next {
            '\\' => name.push(chars.next()?),
            next => name.push(next),
        }
    }
    (!name.is_empty()).then_some(Step::Field(name))
}

fn bracket(chars: &mut Rest<'_>, steps: &mut Vec<Step>) -> Option<()> {
    let inner = up_to_bracket(chars)?;
    if let Some(filter) = inner
        .strip_prefix("?(")
        .and_then(|filter| filter.strip_suffix(')'))
    {
        steps.push(Step::Where(Condition::parse(filter)?));
    } else if inner.contains(',') {
        let paths = inner.split(',').map(|part| {
            let mut steps = Vec::new();
            selection(part.trim_matches(' '), &mut steps)?;
            Some(JsonPath(steps))
        });
        steps.push(Step::Union(paths.collect::<Option<_>>()?));
    } else {
        selection(&inner, steps)?;
    }
    Some(())
}

/// A quoted path, or a range of items.
fn selection(text: &str, steps: &mut Vec<Step>) -> Option<()> {
    let name = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    match name {
        Some(name) if !name.contains('\'') => steps.extend(JsonPath::parse(&format!(".{name}"))?.0),
        _ if text == "*" => steps.push(Step::Items(Slice::parse(":")?)),
        _ => steps.push(Step::Items(Slice::parse(text)?)),
    }
    Some(())
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

fn quoted(text: &str) -> Option<String> {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(object: &Value, path: &str, expected: Value) {
        let path = JsonPath::parse(path).unwrap();
        assert_eq!(json!(path.find(object)), expected, "{path:?}");
    }

    #[test]
    fn paths_are_evaluated_as_in_kubectl() {
        let object = json!({
            "metadata": {"annotations": {"example.com/a": "x"}},
            "spec": {"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        let check = |path: &str, expected: Value| check(&object, path, expected);
        check(".spec.items[0].name", json!(["a"]));
        check(".spec.items[-1].n", json!([2]));
        check(".spec.items[*].name", json!(["a", "b"]));
        check(r".metadata.annotations.example\.com/a", json!(["x"]));
        check(r".metadata.annotations['example\.com/a']", json!(["x"]));
        // As after a dot, a dot in quotes separates names.
        check(".metadata.annotations['example.com/a']", json!([]));
        check(
            r#".status.conditions[?(@.type=="Ready")].status"#,
            json!(["True"]),
        );
        check(".status.conditions[?(@.type!='Ready')].status", json!(["False"]));
        check(".spec.items[?(@.n==2)].name", json!(["b"]));
        check(".spec.nothing.here", json!([]));
    }

    #[test]
    fn ranges_unions_and_descents_select_several_values() {
        let object = json!({
            "list": [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 3}],
            "map": {"a": {"n": 10}, "b": {"n": 11, "m": 1.5}},
        });
        let check = |path: &str, expected: Value| check(&object, path, expected);
        check(".list[1:3].n", json!([1, 2]));
        check(".list[:2].n", json!([0, 1]));
        check(".list[2:].n", json!([2, 3]));
        check(".list[-2:].n", json!([2, 3]));
        check(".list[::2].n", json!([0, 2]));
        check(".list[0,3].n", json!([0, 3]));
        check(".map['a','b'].n", json!([10, 11]));
        check(".map.*.n", json!([10, 11]));
        check(".list.*.n", json!([0, 1, 2, 3]));
        check("..m", json!([1.5]));
        check(".list..n", json!([0, 1, 2, 3]));
        check(".list[?(@.n>=1)].n", json!([1, 2, 3]));
        check(".list[?(@.n<1)].n", json!([0]));
        check(".list[?(@.n)].n", json!([0, 1, 2, 3]));
        check(".list[?(@.n==@.n)].n", json!([0, 1, 2, 3]));
        // An item without the field satisfies no comparison.
        check(".list[?(@.none!=1)].n", json!([]));
    }

    #[test]
    fn what_cannot_be_evaluated_leads_to_nothing() {
        let object =
            json!({"spec": {"items": [{"tags": ["x"]}, {"tags": []}], "map": {"a": 1}, "none": null}});
        for path in [
            ".spec.items[2].tags",
            ".spec.items[*].tags[0]",
            ".spec.map[*]",
            ".spec.map[?(@.a==1)]",
            ".spec.items[?(@.tags==1)]",
            ".spec.items[1:0]",
            ".spec.none[0]",
            ".spec.none.a",
        ] {
            check(&object, path, json!([]));
        }
        let numbers = json!({"list": [{"n": 1.5}, {"n": 2}]});
        check(&numbers, ".list[?(@.n>1)].n", json!([]));
    }

    #[test]
    fn a_path_that_passes_too_many_values_leads_to_nothing() {
        let nested = (0..20).fold(json!([]), |inner, _| json!([inner]));
        let object = json!({"list": [nested]});
        assert_eq!(JsonPath::parse(".list..[*]").unwrap().find(&object).len(), 21);
        for path in [
            // Half of twenty levels can be chosen in 184,756 ways.
            format!(".list{}", "..[*]".repeat(10)),
            format!(".list[?(@{})]", "..*".repeat(10)),
            format!(".list[{}0]", "0,".repeat(20_000)),
        ] {
            let path = JsonPath::parse(&path).unwrap();
            let budget = Budget::new(MAX_VALUES);
            assert!(
                path.evaluate(vec![&object], &budget)
                    .is_none_or(|found| found.is_empty())
            );
            assert_eq!(budget.left(), 0);
        }
        // Each place on the way counts, not the whole list again for each.
        let long = json!({"list": vec![json!({"a": 1}); 4_000]});
        assert_eq!(JsonPath::parse(".list[*].a").unwrap().find(&long).len(), 4_000);
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for text in [
            "spec",
            ".",
            "....a",
            ".a[",
            ".a[x]",
            ".a[\"x\"]",
            ".a[?(@.b=1)]",
            ".a[?(b)]",
            ".a.",
            ".a[1:2:3:4]",
        ] {
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
