//! Finds the line of a field, for error messages.
//!
//! The text is parsed once more, only for fields with errors, so that reading need not keep lines.

use libyaml_safer::{Encoding, EventData, Parser};

/// The line of a field in a document, from 1, where `line` is the first line of the document.
///
/// `path` is that of a field error: `spec.containers[0].image`, `metadata.labels[a.b/c]`. If it does not exist, such
/// as a missing required field, the line of the last existing step is returned; for a malformed document, the first
/// line.
///
/// ```
/// use watchkeeper_wire::yaml::line_of;
///
/// let text = b"kind: Pod\nspec:\n  containers:\n  - name: a\n    image: ''\n";
/// assert_eq!(line_of(text, 1, "spec.containers[0].image"), 5);
/// assert_eq!(line_of(text, 1, "spec.containers[0].command[1]"), 4);
/// ```
pub fn line_of(input: &[u8], line: usize, path: &str) -> usize {
    let Some(start) = start_of_line(input, line) else {
        return line;
    };
    let steps = steps(path);
    let mut search = Search {
        steps: &steps,
        open: Vec::new(),
        found: None,
    };
    let mut parser = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    let text = &input[start..];
    let mut reader = text;
    parser.set_input(&mut reader);
    // The scanner panics at some malformed texts; those have been refused before.
    let walk = std::panic::AssertUnwindSafe(|| {
        while let Ok(event) = parser.parse() {
            if search.see(&event.data, event.start_mark.line as usize) == Progress::Done {
                break;
            }
        }
    });
    let _ = std::panic::catch_unwind(walk);
    line + search.found.unwrap_or_default()
}

/// The steps of a field path. A step into a list is its index.
fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (step, behind) = match rest.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').unwrap_or((bracketed, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        steps.push(step);
        rest = behind;
    }
    steps.retain(|step| !step.is_empty());
    steps
}

fn start_of_line(input: &[u8], line: usize) -> Option<usize> {
    match line {
        0 | 1 => Some(0),
        _ => memchr::memchr_iter(b'\n', input).nth(line - 2).map(|end| end + 1),
    }
}

/// A walk through the events of a document in search of one path.
struct Search<'p> {
    steps: &'p [&'p str],
    open: Vec<Open>,
    /// The line of the last step found, from 0.
    found: Option<usize>,
}

/// An open map or list.
struct Open {
    is_on_path: bool,
    place: Place,
}

enum Place {
    /// Before a key.
    Key,
    /// Before the value of a key; `is_next` if that key is the next step.
    Value { is_next: bool },
    /// Before the item of this index.
    Item(usize),
}

#[derive(PartialEq, Eq)]
enum Progress {
    Going,
    Done,
}

impl Search<'_> {
    fn see(&mut self, event: &EventData, line: usize) -> Progress {
        match event {
            EventData::StreamStart { .. } | EventData::DocumentStart { .. } => {}
            EventData::MappingEnd | EventData::SequenceEnd => {
                let was_on_path = self.open.pop().is_some_and(|open| open.is_on_path);
                // The search has left the path.
                if was_on_path || self.open.is_empty() {
                    return Progress::Done;
                }
            }
            EventData::MappingStart { .. } => {
                let is_on_path = self.enter(None, line);
                self.open.push(Open {
                    is_on_path,
                    place: Place::Key,
                });
            }
            EventData::SequenceStart { .. } => {
                let is_on_path = self.enter(None, line);
                self.open.push(Open {
                    is_on_path,
                    place: Place::Item(0),
                });
            }
            EventData::Scalar { value, .. } => {
                self.enter(Some(value), line);
            }
            EventData::Alias { .. } => {
                self.enter(None, line);
            }
            _ => return Progress::Done,
        }
        Progress::Going
    }

    /// Enters a node: a key, a value or an item. Returns true if it is on the path.
    fn enter(&mut self, text: Option<&str>, line: usize) -> bool {
        let depth = self.open.len();
        let Some(open) = self.open.last_mut() else {
            // The document itself.
            self.found = Some(line);
            return true;
        };
        let wanted = self.steps.get(depth - 1).filter(|_| open.is_on_path);
        match open.place {
            Place::Key => {
                let is_next = wanted.is_some() && text == wanted.copied();
                open.place = Place::Value { is_next };
                if is_next {
                    self.found = Some(line);
                }
                // A key has no children on the path.
                false
            }
            Place::Value { is_next } => {
                open.place = Place::Key;
                is_next
            }
            Place::Item(index) => {
                open.place = Place::Item(index + 1);
                let is_next = wanted.is_some_and(|wanted| wanted.parse() == Ok(index));
                if is_next {
                    self.found = Some(line);
                }
                is_next
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "# a pod
apiVersion: v1
kind: Pod
metadata:
  name: a
  labels: {app: web,
    a.b/c: d}
spec:
  containers:
  - name: first
    image: one
  -
    name: second
    image: two
    ports:
    - containerPort: 80
  restartPolicy: Always
";

    fn check(text: &str, first: usize, path: &str, line: usize) {
        assert_eq!(line_of(text.as_bytes(), first, path), line, "{path}");
    }

    #[test]
    fn a_field_has_the_line_of_its_key() {
        check(POD, 1, "kind", 3);
        check(POD, 1, "metadata.name", 5);
        check(POD, 1, "metadata.labels[a.b/c]", 7);
        check(POD, 1, "spec.containers[0].image", 11);
        check(POD, 1, "spec.containers[1].image", 14);
        check(POD, 1, "spec.containers[1].ports[0].containerPort", 16);
        check(POD, 1, "spec.restartPolicy", 17);
    }

    #[test]
    fn what_is_missing_has_the_line_of_what_should_have_it() {
        check(POD, 1, "spec.containers[0].ports[0]", 10);
        check(POD, 1, "spec.containers[7].image", 9);
        check(POD, 1, "spec.template.spec", 8);
        check(POD, 1, "status", 2);
        check(POD, 1, "", 2);
    }

    #[test]
    fn other_documents_and_json_have_lines_too() {
        let two = format!("kind: Secret\nspec: 1\n---\n{POD}---\nspec: {{containers: 1}}\n");
        check(&two, 4, "spec.containers[1].image", 17);
        let json = "{\n  \"spec\": {\n    \"containers\": [\n      {\"name\": \"a\"},\n      {\"name\": \"b\"}\n    ]\n  }\n}\n";
        check(json, 1, "spec.containers[1].name", 5);
    }

    #[test]
    fn a_text_that_is_no_yaml_has_its_first_line() {
        check("a: [", 1, "a.b", 1);
        check("a: [!x,b]\n", 1, "a[0]", 1);
        check("", 1, "a", 1);
        check("a: 1\n", 9, "a", 9);
    }
}
