//! The outcome a manifest expects, which makes it a test.
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     watchkeeper.dev/expect: "denied: must not run as root"
//! ```
//!
//! `allowed`, `denied`, `denied: TEXT` and `warned: TEXT`, where TEXT is part of the server's message. It is an
//! annotation, so that a test is an ordinary manifest: it can be beside the policy it tests, in a folder of tests, or
//! piped in; it needs no naming scheme; and editors with schemas still help to write it. The server never sees the
//! annotation. Tests run last, in order. A test that names an existing object updates it, so that rules about changes
//! (`oldSelf`, `oldObject`, immutable fields) can be tested too.

use serde_json::Value;
use watchkeeper_meta::Status;

pub(super) const ANNOTATION: &str = "watchkeeper.dev/expect";

/// The outcome a manifest expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// Not a test; it must be valid.
    None,
    Allowed,
    /// Denied, with this text in the message.
    Denied(String),
    /// Allowed, with this text in the warnings.
    Warned(String),
}

/// The server's answer.
pub(super) struct Answer {
    /// The errors, if it was denied; two if there are unknown fields.
    pub(super) refused: Vec<Status>,
    pub(super) warnings: Vec<String>,
}

/// Removes the expectation from an object.
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
    /// The `Err` describes what happened instead.
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
