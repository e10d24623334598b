//! kubectl's JSONPath: `{.items[*].metadata.name}`, `{.status.phase}`, `{range .items[*]}{.metadata.name}{"\n"}{end}`,
//! `{.metadata.labels.app\.kubernetes\.io/name}`, `{['a','b']}`, `{.items[?(@.status.phase=="Running")]}`, `{.items[1:3]}`,
//! `{..image}`.
//!
//! Paths are in [`path`]. A field that does not exist is empty, as with kubectl's `--allow-missing-template-keys`; an
//! item of a list that does not exist is an error.

mod path;

use serde_json::Value;

pub(crate) use path::Path;

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
    pub(crate) fn render(&self, document: &Value) -> Result<String, String> {
        let mut out = String::new();
        render(&self.0, document, &mut out)
            .map_err(|problem| format!("error executing jsonpath: {problem}"))?;
        Ok(out)
    }
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

fn render(parts: &[Part], document: &Value, out: &mut String) -> Result<(), String> {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(path) => {
                let texts: Vec<_> = path.find_items(document)?.into_iter().map(plain).collect();
                out.push_str(&texts.join(" "));
            }
            Part::Range(path, inner) => {
                for value in path.find_items(document)? {
                    render(inner, value, out)?;
                }
            }
        }
    }
    Ok(())
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
            Ok(template) => template.render(&document).unwrap_or_else(|problem| problem),
            Err(problem) => format!("refused: {problem}"),
        };
        assert_eq!(printed, expected, "{template:?}");
    }

    #[test]
    fn an_item_that_a_list_does_not_have_is_an_error_and_a_missing_field_is_nothing() {
        let outside = |index: i64| {
            format!("error executing jsonpath: array index out of bounds: index {index}, length 2")
        };
        check("{.items[2].n}", &outside(2));
        check("{.items[0:3].n}", &outside(2));
        check("{.items[5:].n}", &outside(5));
        check("{range .items[7]}{.n}{end}", &outside(7));
        check("{.items[2:2].n}", "");
        check("{.items[0:2].n}", "1 2");
        check("{.nothing[3].n}{.items[0].nothing}", "");
    }

    #[test]
    fn paths_lead_to_values() {
        check("{.items[*].metadata.name}", "a b");
        check(".items[*].n", "1 2");
        check("{.items[-1].metadata.name}", "b");
        check("{.items[0].metadata.labels.x\\.io/y}", "1");
        check("{.items[0].metadata.labels['x.io/y']}", "1");
        check("{$.items[0]['metadata'].name}!", "a!");
        check("{.items[0].nothing}", "");
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
    fn filters_select_items() {
        check("{.items[?(@.n==1)].metadata.name}", "a");
        check("{.items[?(@.n != 1)].metadata.name}", "b");
        check("{.items[?(@.n>=1)].n}", "1 2");
        check("{.items[?(@.metadata.name==\"b\")].n}", "2");
        check("{.items[?(@.metadata.labels)].n}", "1");
        check("{.items[?(@.metadata.labels['x.io/y']=='1')].n}", "1");
        check("{.items[?(@.metadata.name==1)].n}", "");
    }

    #[test]
    fn slices_and_lists_of_steps_select_several() {
        check("{.items[0:1].n}", "1");
        check("{.items[1:].n}", "2");
        check("{.items[-1:].n}", "2");
        check("{.items[::2].n}", "1");
        check("{.items[0,1].n}", "1 2");
        check("{.items[0]['n','metadata'].name}", "a");
    }

    #[test]
    fn two_dots_look_everywhere_below() {
        check("{..name}", "a b");
        check("{.items[1]..name}", "b");
        check("{..metadata.name}", "a b");
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        check(
            "{.items[?(@.n==1 && @.n==2)]}",
            "refused: \".items[?(@.n==1 && @.n==2)]\": && and || are not supported in filters",
        );
        check(
            "{.items[1:2:0]}",
            "refused: \".items[1:2:0]\": [1:2:0] has a step that is not positive",
        );
        check(
            "{.items[x]}",
            "refused: \".items[x]\": [x] is no number, slice, quoted name, filter or *",
        );
        check("{.items[0}", "refused: \".items[0\": a bracket is not closed");
        check("{.items", "refused: a brace is not closed");
    }
}
