//! What a manifest expects of the server, which makes it a test.
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     watchkeeper.dev/expect: "denied: must not run as root"
//! ```
//!
//! `allowed`, `denied`, `denied: TEXT` and `warned: TEXT`, where TEXT is a part of what the server says. An annotation,
//! because a test then is a manifest like any other: it can stand beside the policy it tests, in a folder of tests, or be
//! piped in; nothing has to be named after anything; and an editor that knows the schema still helps to write it. The
//! server never sees the annotation. Tests come last, in the order they are written in. One that names an object that
//! exists is an update of it, so that rules about changes (`oldSelf`, `oldObject`, immutable fields) can be tested too.

use serde_json::Value;
use watchkeeper_meta::Status;

pub(super) const ANNOTATION: &str = "watchkeeper.dev/expect";

/// The outcome a manifest expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// It is no test, and must be valid.
    None,
    Allowed,
    /// Refused, with this among the words.
    Denied(String),
    /// Let in, with this among the warnings.
    Warned(String),
}

/// What the server did.
pub(super) struct Answer {
    /// Why it refused, if it did; twice if there are fields it does not know.
    pub(super) refused: Vec<Status>,
    pub(super) warnings: Vec<String>,
}

/// Takes the expectation out of an object.
pub(super) fn take(object: &mut Value) -> Result<Expectation, String> {
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else {
        return Ok(Expectation::None);
    };
    let Some(value) = annotations.remove(ANNOTATION) else {
        return Ok(Expectation::None);
    };
    if annotations.is_empty()
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("annotations");
    }
    parse(value.as_str().unwrap_or_default())
}

fn parse(text: &str) -> Result<Expectation, String> {
    let (word, part) = text.split_once(':').unwrap_or((text, ""));
    let part = part.trim().to_owned();
    match word.trim() {
        "allowed" if part.is_empty() => Ok(Expectation::Allowed),
        "denied" => Ok(Expectation::Denied(part)),
        "warned" => Ok(Expectation::Warned(part)),
        _ => Err(format!(
            "{text:?} is no expectation: write allowed, denied, \"denied: TEXT\" or \"warned: TEXT\""
        )),
    }
}

impl Expectation {
    /// `Err` says what came instead.
    pub(super) fn meets(&self, answer: &Answer) -> Result<(), String> {
        let said: Vec<&str> = answer
            .refused
            .iter()
            .map(|status| status.message.as_str())
            .collect();
        let said = (!said.is_empty()).then(|| said.join("; "));
        match (self, said) {
            (Self::None | Self::Allowed, None) => Ok(()),
            (Self::None | Self::Allowed, Some(said)) => {
                Err(format!("expected to be allowed, but was denied: {said}"))
            }
            (Self::Denied(part), Some(said)) if said.contains(part) => Ok(()),
            (Self::Denied(part), Some(said)) => Err(format!(
                "expected to be denied with {part:?}, but was denied with: {said}"
            )),
            (Self::Denied(part), None) if part.is_empty() => {
                Err("expected to be denied, but was allowed".to_owned())
            }
            (Self::Denied(part), None) => {
                Err(format!("expected to be denied with {part:?}, but was allowed"))
            }
            (Self::Warned(_), Some(said)) => Err(format!("expected a warning, but was denied: {said}")),
            (Self::Warned(part), None) => {
                match answer.warnings.iter().any(|warning| warning.contains(part)) {
                    true => Ok(()),
                    false if answer.warnings.is_empty() => {
                        Err(format!("expected the warning {part:?}, but there was none"))
                    }
                    false => Err(format!(
                        "expected the warning {part:?}, but it was: {}",
                        answer.warnings.join("; ")
                    )),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_expectation_is_taken_out_of_its_object() {
        let check = |annotations: Value, expected: Result<Expectation, &str>, left: Value| {
            let mut object = json!({"metadata": {"name": "a", "annotations": annotations}});
            let taken = take(&mut object);
            match (taken, expected) {
                (Ok(taken), Ok(expected)) => assert_eq!(taken, expected),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (taken, _) => panic!("{taken:?}"),
            }
            assert_eq!(object, left);
        };
        let bare = json!({"metadata": {"name": "a"}});
        let denied = Expectation::Denied("a: b".to_owned());
        check(json!({ANNOTATION: "denied: a: b"}), Ok(denied), bare.clone());
        check(
            json!({ANNOTATION: "denied"}),
            Ok(Expectation::Denied(String::new())),
            bare.clone(),
        );
        check(
            json!({ANNOTATION: "allowed"}),
            Ok(Expectation::Allowed),
            bare.clone(),
        );
        let warned = Expectation::Warned("old".to_owned());
        check(
            json!({ANNOTATION: "warned: old", "b": "c"}),
            Ok(warned),
            json!({"metadata": {"name": "a", "annotations": {"b": "c"}}}),
        );
        check(
            json!({ANNOTATION: "refused"}),
            Err("is no expectation"),
            bare.clone(),
        );
        check(json!({ANNOTATION: true}), Err("is no expectation"), bare);
        check(
            json!({"b": "c"}),
            Ok(Expectation::None),
            json!({"metadata": {"name": "a", "annotations": {"b": "c"}}}),
        );
    }
}
