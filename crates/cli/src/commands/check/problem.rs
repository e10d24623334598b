//! Problems of manifests, with their positions.

use serde::Serialize;
use watchkeeper_client::ManifestError;
use watchkeeper_meta::{Resource, Status};

use super::case::Case;
use super::expectation::ANNOTATION;
use crate::manifests::Text;

/// A problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Problem {
    pub(super) severity: Severity,
    /// As typed; `STDIN` if it was piped in.
    pub(super) file: String,
    /// From 1.
    pub(super) line: usize,
    /// The index of the document among the non-empty ones in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) document: Option<usize>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    /// `deployment.apps/web`.
    #[serde(skip)]
    pub(super) object: String,
    /// The path of the field, if the server names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) field: String,
    /// The server's reason, for programs: `FieldValueInvalid`, `BadRequest`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    pub(super) message: String,
}

/// Error or warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Error,
    Warning,
}

/// Sorts by file, in the order given, and line.
pub(super) fn sort(problems: &mut [Problem], texts: &[Text]) {
    let place = |file: &str| texts.iter().position(|text| text.source == file);
    problems.sort_by_cached_key(|problem| (place(&problem.file), problem.line));
}

impl Problem {
    /// A document that is not a manifest.
    pub(super) fn unreadable(text: &Text, error: &ManifestError) -> Self {
        let (document, message) = match error {
            ManifestError::Syntax(error) => (Some(error.index + 1), error.kind.to_string()),
            error => (None, error.to_string()),
        };
        Self {
            severity: Severity::Error,
            file: text.source.clone(),
            line: error.line(),
            document,
            api_version: String::new(),
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            object: String::new(),
            field: String::new(),
            reason: "Unreadable".to_owned(),
            message,
        }
    }

    /// A kind that neither the server nor the set has.
    pub(super) fn unknown_kind(case: &Case<'_>) -> Self {
        let kind = &case.manifest.kind;
        let message = format!(
            "no matches for kind {:?} in version {:?}; give its CustomResourceDefinition with another -f",
            kind.kind,
            kind.api_version()
        );
        Self::at(case, None, "kind", "NoKindMatch", message)
    }

    /// An object that is in the set twice.
    pub(super) fn twice(case: &Case<'_>, resource: &Resource, first: &str) -> Self {
        let message = format!("the same object is at {first}");
        Self::at(case, Some(resource), "metadata.name", "AlreadyExists", message)
    }

    /// An invalid expectation.
    pub(super) fn of_expectation(case: &Case<'_>, reason: &str) -> Self {
        let path = format!("metadata.annotations[{ANNOTATION}]");
        Self::at(case, None, &path, "Expectation", reason.to_owned())
    }

    /// A test that failed.
    pub(super) fn of_test(case: &Case<'_>, resource: &Resource, reason: String) -> Self {
        let path = format!("metadata.annotations[{ANNOTATION}]");
        Self::at(case, Some(resource), &path, "TestFailed", reason)
    }

    /// A warning of the server.
    pub(super) fn warning(case: &Case<'_>, resource: &Resource, text: &str) -> Self {
        let path = text.split_once(": ").map_or("", |(path, _)| path);
        let path = if path.contains(' ') { "" } else { path };
        Self {
            severity: Severity::Warning,
            ..Self::at(case, Some(resource), path, "", text.to_owned())
        }
    }

    /// All problems of an error: one per field, if it names any.
    pub(super) fn refusals(case: &Case<'_>, resource: &Resource, status: &Status) -> Vec<Self> {
        let reason = status.reason.to_string();
        let one = |path: &str, reason: &str, message: String| {
            let problem = Self::at(case, Some(resource), path, reason, message);
            Self {
                field: path.to_owned(),
                ..problem
            }
        };
        let strict = strict_complaints(&status.message);
        let mut found: Vec<Self> = match fields(status) {
            fields if !fields.is_empty() => fields
                .into_iter()
                .map(|(path, reason, message)| one(path, reason, message))
                .collect(),
            _ if !strict.is_empty() => strict
                .into_iter()
                .map(|complaint| one(quoted(complaint), &reason, complaint.to_owned()))
                .collect(),
            _ => vec![one(
                decoded_field(&status.message),
                &reason,
                status.message.clone(),
            )],
        };
        found.dedup();
        found
    }

    fn at(case: &Case<'_>, resource: Option<&Resource>, path: &str, reason: &str, message: String) -> Self {
        let manifest = &case.manifest;
        let name = match manifest.name.is_empty() {
            true => case.object["metadata"]["generateName"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            false => manifest.name.clone(),
        };
        let object = match resource {
            Some(resource) => resource.display_name(&name),
            None => format!("{}/{name}", manifest.kind.kind),
        };
        Self {
            severity: Severity::Error,
            file: case.text.source.clone(),
            line: case.line(path),
            document: Some(manifest.place.document + 1),
            api_version: manifest.kind.api_version(),
            kind: manifest.kind.kind.to_string(),
            namespace: manifest.namespace.clone(),
            name,
            object,
            field: String::new(),
            reason: reason.to_owned(),
            message,
        }
    }
}

/// Path, reason and message of each field in an error.
fn fields(status: &Status) -> Vec<(&str, &str, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let named = causes.filter(|cause| !cause.field.is_empty());
    let words = |field: &str, message: &str| match field {
        // Errors about the object as a whole name no field.
        "<nil>" => message.to_owned(),
        field => format!("{field}: {message}"),
    };
    named
        .map(|cause| {
            let path = if cause.field == "<nil>" { "" } else { &cause.field };
            (path, &*cause.reason, words(&cause.field, &cause.message))
        })
        .collect()
}

/// The prefix of a server's message about unknown fields.
const STRICT: &str = "strict decoding error: ";

/// True if the server refused only because of unknown fields.
pub(super) fn is_strict(status: &Status) -> bool {
    status.message.contains(STRICT)
}

/// `unknown field "a.b"`, each on its own.
fn strict_complaints(message: &str) -> Vec<&str> {
    let Some((_, complaints)) = message.split_once(STRICT) else {
        return Vec::new();
    };
    complaints.split(", ").collect()
}

/// The quoted text.
fn quoted(complaint: &str) -> &str {
    complaint.split('"').nth(1).unwrap_or_default()
}

/// The field in `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
fn decoded_field(message: &str) -> &str {
    let field = message
        .split_once("Go struct field ")
        .map_or("", |(_, rest)| rest);
    let field = field.split_once(" of type").map_or("", |(field, _)| field);
    field.split_once('.').map_or("", |(_, path)| path)
}
