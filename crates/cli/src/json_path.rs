//! The commonly used part of kubectl's JSONPath: `{.items[*].metadata.name}`, `{.status.phase}`, `{range
//! .items[*]}{.metadata.name}{"\n"}{end}`, `{.metadata.labels.app\.kubernetes\.io/name}`, `{['a','b']}`.
//!
//! Filters (`?(@…)`), slices and `..` are not supported and are refused by name. A path that does not exist is empty,
//! as with kubectl's `--allow-missing-template-keys`.

use serde_json::Value;

/// The deepest nesting of `{range}`.
const MAX_NESTING: usize = 16;

/// A template.
#[derive(Debug, PartialEq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, PartialEq)]
enum Part {
    Text(String),
    Path(Path),
    Range(Path, Vec<Part>),
}

/// Steps from a document to values within it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    /// Negative ones count from the end.
    Index(i64),
    Each,
}

impl Template {
    /// Parses a template; one without braces is a bare path.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if !text.contains('{') {
            return Ok(Self(vec![Part::Path(Path::parse(text)?)]));
        }
        let mut rest = text;
        let parts = parts(&mut rest, 0)?;
        Ok(Self(parts))
    }

    /// The output for a document.
    pub(crate) fn render(&self, document: &Value) -> String {
        let mut out = String::new();
        render(&self.0, document, &mut out);
        out
    }
}

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
}

impl Step {
    fn follow<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Self::Key(key), Value::Object(fields)) => fields.get(key).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let at = match usize::try_from(*index) {
                    Ok(at) => Some(at),
                    Err(_) => usize::try_from(index.unsigned_abs())
                        .ok()
                        .and_then(|back| items.len().checked_sub(back)),
                };
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            (Self::Each, Value::Array(items)) => items.iter().collect(),
            (Self::Each, Value::Object(fields)) => fields.values().collect(),
            _ => Vec::new(),
        }
    }
}

/// Consumes one step; `None` for a dot that denotes the document itself.
fn step(rest: &mut &str) -> Result<Option<Step>, String> {
    if rest.starts_with("..") {
        return Err("'..' is not supported: name each field".to_owned());
    }
    if let Some(inner) = rest.strip_prefix('[') {
        let (inside, after) = inner.split_once(']').ok_or("a bracket is not closed")?;
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
    if let Some(key) = inside.strip_prefix(['\'', '"']) {
        return match key.strip_suffix(['\'', '"']) {
            Some(key) => Ok(Step::Key(key.to_owned())),
            None => Err(format!("[{inside}] has a quote that is not closed")),
        };
    }
    if inside == "*" {
        return Ok(Step::Each);
    }
    let index = inside.parse().map(Step::Index);
    index.map_err(|_| format!("[{inside}] is not supported: use a number, a quoted name or *"))
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

/// Parts up to the end, or up to the `{end}` of a range.
fn parts(rest: &mut &str, nesting: usize) -> Result<Vec<Part>, String> {
    if nesting > MAX_NESTING {
        return Err(format!("{{range}} is nested deeper than {MAX_NESTING} levels"));
    }
    let mut found = Vec::new();
    loop {
        let Some((text, inner)) = rest.split_once('{') else {
            found.push(Part::Text(std::mem::take(rest).to_owned()));
            return match nesting {
                0 => Ok(found),
                _ => Err("{range} without {end}".to_owned()),
            };
        };
        found.push(Part::Text(text.to_owned()));
        let (inside, after) = braces(inner)?;
        *rest = after;
        match inside.trim() {
            "end" if nesting > 0 => return Ok(found),
            "end" => return Err("{end} without {range}".to_owned()),
            inside => found.push(part(inside, rest, nesting)?),
        }
    }
}

fn part(inside: &str, rest: &mut &str, nesting: usize) -> Result<Part, String> {
    if let Some(path) = inside.strip_prefix("range ") {
        return Ok(Part::Range(Path::parse(path)?, parts(rest, nesting + 1)?));
    }
    if inside.starts_with('"') || inside.starts_with('\'') {
        let literal = inside.get(1..inside.len() - 1).unwrap_or_default();
        return Ok(Part::Text(unescape(literal)));
    }
    Path::parse(inside).map(Part::Path)
}

/// The text up to the closing brace, except within quotes.
fn braces(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '}') => return Ok((&text[..at], &text[at + 1..])),
            (None, _) => {}
        }
    }
    Err("a brace is not closed".to_owned())
}

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\\"", "\"")
}

fn render(parts: &[Part], document: &Value, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(path) => {
                let texts: Vec<_> = path.find(document).into_iter().map(plain).collect();
                out.push_str(&texts.join(" "));
            }
            Part::Range(path, inner) => {
                for value in path.find(document) {
                    render(inner, value, out);
                }
            }
        }
    }
}

/// Text without quotes; anything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(template: &str, expected: &str) {
        let document = json!({
            "items": [
                {"metadata": {"name": "a", "labels": {"x.io/y": "1"}}, "n": 1},
                {"metadata": {"name": "b"}, "n": 2},
            ],
        });
        let printed = match Template::parse(template) {
            Ok(template) => template.render(&document),
            Err(problem) => format!("refused: {problem}"),
        };
        assert_eq!(printed, expected, "{template:?}");
    }

    #[test]
    fn paths_lead_to_values() {
        check("{.items[*].metadata.name}", "a b");
        check(".items[*].n", "1 2");
        check("{.items[-1].metadata.name}", "b");
        check("{.items[0].metadata.labels.x\\.io/y}", "1");
        check("{.items[0].metadata.labels['x.io/y']}", "1");
        check("{$.items[0]['metadata'].name}!", "a!");
        check("{.items[7].nothing}", "");
        check("{.items[0].metadata.labels}", r#"{"x.io/y":"1"}"#);
    }

    #[test]
    fn ranges_repeat_their_parts() {
        check(
            "{range .items[*]}{.metadata.name}={.n}{\"\\n\"}{end}",
            "a=1\nb=2\n",
        );
        check("{range .items[*]}{.n}", "refused: {range} without {end}");
        check("{end}", "refused: {end} without {range}");
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        check(
            "{.items[?(@.n==1)]}",
            "refused: \".items[?(@.n==1)]\": [?(@.n==1)] is not supported: use a number, a quoted name or *",
        );
        check(
            "{..name}",
            "refused: \"..name\": '..' is not supported: name each field",
        );
        check("{.items[0}", "refused: \".items[0\": a bracket is not closed");
        check("{.items", "refused: a brace is not closed");
    }
}
