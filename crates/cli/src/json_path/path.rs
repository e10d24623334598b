//! Paths of JSONPath: steps from a document to values within it.
//!
//! Fields, `[0]`, `[-1]`, `[*]`, `['name']`, lists of these, slices `[from:to:step]`, filters `[?(@.a == "b")]` with one
//! comparison or none, and `..`, which goes to a value and to everything below it.

use std::cmp::Ordering;

use serde_json::Value;

use super::plain;

/// Steps from a document to values within it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    /// Negative ones count from the end.
    Index(i64),
    Each,
    Slice(Slice),
    /// Each of these, one after the other.
    Several(Vec<Step>),
    Filter(Filter),
    /// The value and everything below it, parents first.
    Deep,
}

/// Items from one position up to another; negative ones count from the end.
#[derive(Clone, Debug, PartialEq)]
struct Slice {
    from: Option<i64>,
    to: Option<i64>,
    step: usize,
}

/// The items where a path leads to something, or to something that compares.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    right: Option<(&'static str, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Path),
    Literal(Value),
}

/// Longer ones first: `<=` is not `<`.
const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

impl Path {
    /// Parses `.a.b[0]['c'][*]`; a leading `$` or `@` is the current document.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            steps.push(step(&mut rest).map_err(|problem| format!("{text:?}: {problem}"))?);
        }
        Ok(Self(steps.into_iter().flatten().collect()))
    }

    /// The values at the path, in order.
    pub(crate) fn find<'v>(&self, document: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![document];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found
    }

    /// The same for output: an item that a list does not have is an error, as in kubectl. A field that an object does not
    /// have is nothing.
    pub(crate) fn find_items<'v>(&self, document: &'v Value) -> Result<Vec<&'v Value>, String> {
        let mut found = vec![document];
        for step in &self.0 {
            found.iter().try_for_each(|value| step.check(value))?;
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        Ok(found)
    }
}

impl Step {
    /// Fails if a list does not have the item.
    fn check(&self, value: &Value) -> Result<(), String> {
        let Value::Array(items) = value else {
            return Ok(());
        };
        let length = items.len();
        let outside = match self {
            Self::Index(index) => position(*index, length)
                .is_none_or(|at| at >= length)
                .then_some(*index),
            Self::Slice(slice) => slice.outside(length),
            Self::Several(steps) => return steps.iter().try_for_each(|step| step.check(value)),
            _ => None,
        };
        match outside {
            Some(index) => Err(format!(
                "array index out of bounds: index {index}, length {length}"
            )),
            None => Ok(()),
        }
    }

    fn follow<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Self::Key(key), Value::Object(fields)) => fields.get(key).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let at = position(*index, items.len());
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            (Self::Each, Value::Array(items)) => items.iter().collect(),
            (Self::Each, Value::Object(fields)) => fields.values().collect(),
            (Self::Slice(slice), Value::Array(items)) => slice.of(items),
            (Self::Several(steps), value) => steps.iter().flat_map(|step| step.follow(value)).collect(),
            (Self::Filter(filter), Value::Array(items)) => {
                items.iter().filter(|item| filter.takes(item)).collect()
            }
            (Self::Deep, value) => {
                let mut found = Vec::new();
                descend(value, &mut found);
                found
            }
            _ => Vec::new(),
        }
    }
}

/// `None` if it is before the first.
fn position(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(at) => Some(at),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

/// The depth was limited when the document was parsed.
fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    found.push(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| descend(field, found)),
        _ => {}
    }
}

impl Slice {
    /// The first index that a list of this length does not have. An empty slice needs none.
    fn outside(&self, length: usize) -> Option<i64> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let at = |index: Option<i64>, absent| match index {
            Some(index) if index < 0 => index.saturating_add(length),
            Some(index) => index,
            None => absent,
        };
        let (from, to) = (at(self.from, 0), at(self.to, length));
        match from == to {
            true => None,
            false if !(0..length).contains(&from) => Some(from),
            false => (!(0..=length).contains(&to)).then(|| to - 1),
        }
    }

    fn of<'v>(&self, items: &'v [Value]) -> Vec<&'v Value> {
        let at = |index: Option<i64>, absent| match index {
            Some(index) => position(index, items.len()).unwrap_or(0).min(items.len()),
            None => absent,
        };
        let (from, to) = (at(self.from, 0), at(self.to, items.len()));
        let items = items.get(from..to).unwrap_or_default();
        items.iter().step_by(self.step).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| not_a_step(text)),
        };
        let parts: Vec<_> = text.split(':').map(number).collect::<Result<_, _>>()?;
        let step = match parts.get(2).copied().flatten() {
            None => Ok(1),
            Some(step) => usize::try_from(step),
        };
        match (step, parts.as_slice()) {
            (Ok(step @ 1..), [from, to] | [from, to, _]) => Ok(Self {
                from: *from,
                to: *to,
                step,
            }),
            (_, [_, _, _]) => Err(format!("[{text}] has a step that is not positive")),
            _ => Err(not_a_step(text)),
        }
    }
}

impl Filter {
    fn takes(&self, item: &Value) -> bool {
        let left = self.left.values(item);
        let Some((comparison, right)) = &self.right else {
            return !left.is_empty();
        };
        match (left.first(), right.values(item).first()) {
            (Some(left), Some(right)) => holds(left, comparison, right),
            _ => false,
        }
    }

    /// The filter between `?(` and `)`.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((left, comparison, right)) = split_comparison(text) {
            return Ok(Self {
                left: Operand::parse(left)?,
                right: Some((comparison, Operand::parse(right)?)),
            });
        }
        Ok(Self {
            left: Operand::parse(text)?,
            right: None,
        })
    }
}

impl Operand {
    fn values<'v>(&'v self, item: &'v Value) -> Vec<&'v Value> {
        match self {
            Self::Path(path) => path.find(item),
            Self::Literal(literal) => vec![literal],
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if outside_quotes(text).any(|(_, rest)| rest.starts_with("&&") || rest.starts_with("||")) {
            return Err("&& and || are not supported in filters".to_owned());
        }
        if text.starts_with('@') {
            return Path::parse(text).map(Self::Path);
        }
        if let Some(text) = unquoted(text) {
            return Ok(Self::Literal(text.into()));
        }
        let literal = serde_json::from_str(text);
        literal
            .map(Self::Literal)
            .map_err(|_| format!("{text:?} in a filter is no path from @, text in quotes or number"))
    }
}

/// Compares numbers with numbers, texts with texts; others are only equal or not.
fn holds(left: &Value, comparison: &str, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(_), Value::Bool(_)) | (Value::Null, Value::Null) => Some(plain(left).cmp(&plain(right))),
        _ => None,
    };
    match comparison {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<" => order == Some(Ordering::Less),
        ">" => order == Some(Ordering::Greater),
        "<=" => order.is_some_and(Ordering::is_le),
        _ => order.is_some_and(Ordering::is_ge),
    }
}

/// Consumes one step; `None` for a dot that denotes the document itself.
fn step(rest: &mut &str) -> Result<Option<Step>, String> {
    if let Some(after) = rest.strip_prefix("..") {
        *rest = after;
        return Ok(Some(Step::Deep));
    }
    if let Some(inner) = rest.strip_prefix('[') {
        let (inside, after) = closed(inner).ok_or("a bracket is not closed")?;
        *rest = after;
        return bracket(inside.trim()).map(Some);
    }
    let text = rest.strip_prefix('.').unwrap_or(rest);
    let (key, after) = key(text);
    if key.is_empty() && after.len() == rest.len() {
        return Err(format!("{rest:?} is no step"));
    }
    *rest = after;
    Ok(match key.as_str() {
        "" => None,
        "*" => Some(Step::Each),
        _ => Some(Step::Key(key)),
    })
}

fn bracket(inside: &str) -> Result<Step, String> {
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return Filter::parse(filter).map(Step::Filter);
    }
    let mut steps: Vec<Step> = split_commas(inside)
        .into_iter()
        .map(|part| simple(part.trim()))
        .collect::<Result<_, _>>()?;
    match steps.len() {
        1 => Ok(steps.remove(0)),
        _ => Ok(Step::Several(steps)),
    }
}

fn split_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    for (at, _) in outside_quotes(text).filter(|(_, rest)| rest.starts_with(',')) {
        parts.push(&text[begin..at]);
        begin = at + 1;
    }
    parts.push(&text[begin..]);
    parts
}

/// A name in quotes, a number, a slice or `*`.
fn simple(inside: &str) -> Result<Step, String> {
    if let Some(key) = unquoted(inside) {
        return Ok(Step::Key(key.to_owned()));
    }
    match inside {
        "*" => Ok(Step::Each),
        _ if inside.contains(':') => Slice::parse(inside).map(Step::Slice),
        _ => inside.parse().map(Step::Index).map_err(|_| not_a_step(inside)),
    }
}

fn not_a_step(inside: &str) -> String {
    format!("[{inside}] is no number, slice, quoted name, filter or *")
}

/// The text up to the closing bracket, and the rest.
fn closed(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (at, rest) in outside_quotes(text) {
        match rest.as_bytes()[0] {
            b'[' => depth += 1,
            b']' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            b']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The first comparison outside of quotes, and what it compares.
fn split_comparison(text: &str) -> Option<(&str, &'static str, &str)> {
    outside_quotes(text).find_map(|(at, rest)| {
        let comparison = COMPARISONS.iter().find(|sign| rest.starts_with(**sign))?;
        Some((&text[..at], *comparison, &rest[comparison.len()..]))
    })
}

/// Each place that is not within quotes, with the text from there on.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut quote = None;
    text.char_indices().filter_map(move |(at, character)| {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, _) => return Some((at, &text[at..])),
        }
        None
    })
}

/// The text between two equal quotes.
fn unquoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|first| ['"', '\''].contains(first))?;
    text[1..]
        .strip_suffix(quote)
        .filter(|inner| !inner.contains(quote))
}

/// A name up to the next dot or bracket; a backslash escapes the next character.
fn key(text: &str) -> (String, &str) {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '.' | '[' => return (key, &text[at..]),
            '\\' => key.extend(characters.next().map(|(_, escaped)| escaped)),
            character => key.push(character),
        }
    }
    (key, "")
}
