//! `Status`: the answer to a request that returns no object.
//!
//! A server builds one with a constructor ([`Status::not_found`] …). A client reads one from an answer and calls
//! predicates ([`Status::is_not_found`] …) instead of matching on codes or texts.

mod access;
mod failures;
mod plain_answer;
mod questions;

use std::borrow::Cow;
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use access::AccessDenied;

use crate::ListMeta;

/// A Kubernetes `Status`: the body of every failed request and of some successful ones.
///
/// It prints as its message and implements `Error`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// List metadata. For an expired continue token, it carries the replacement token.
    #[serde(deserialize_with = "null_as_default")]
    pub metadata: ListMeta,
    /// Success or failure.
    pub status: Outcome,
    /// The message, for people.
    pub message: String,
    /// The reason, for programs; empty if the server has none.
    pub reason: StatusReason,
    /// The object concerned. Boxed, because a `Status` is the error of many functions that rarely fail.
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP status code; 0 if the body does not repeat it.
    pub code: i32,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It succeeded.
    Success,
    /// It failed.
    Failure,
    /// The body has no outcome, or an unknown one.
    #[default]
    #[serde(other)]
    Unstated,
}

/// The object a [`Status`] is about, and the causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: String,
    /// The API group.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub group: Cow<'static, str>,
    /// The plural resource name; in validation errors, the kind.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Cow<'static, str>,
    /// The object's uid.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: String,
    /// The single errors.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_default")]
    pub causes: Vec<StatusCause>,
    /// Seconds to wait before a retry; 0 if unset.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: i32,
}

/// One of the errors a [`Status`] reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// The kind of error, for programs: `FieldValueInvalid`, `ResourceVersionTooLarge` …
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Cow<'static, str>,
    /// The error, for people.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: String,
    /// The field concerned.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub field: String,
}

/// The `reason` of a status. Unknown reasons from servers are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StatusReason(Cow<'static, str>);

impl StatusReason {
    /// No reason.
    pub const UNKNOWN: Self = Self(Cow::Borrowed(""));
    /// 401.
    pub const UNAUTHORIZED: Self = Self(Cow::Borrowed("Unauthorized"));
    /// 403.
    pub const FORBIDDEN: Self = Self(Cow::Borrowed("Forbidden"));
    /// 404.
    pub const NOT_FOUND: Self = Self(Cow::Borrowed("NotFound"));
    /// 409 on a create.
    pub const ALREADY_EXISTS: Self = Self(Cow::Borrowed("AlreadyExists"));
    /// 409 on an update.
    pub const CONFLICT: Self = Self(Cow::Borrowed("Conflict"));
    /// 410, the older reason.
    pub const GONE: Self = Self(Cow::Borrowed("Gone"));
    /// 422.
    pub const INVALID: Self = Self(Cow::Borrowed("Invalid"));
    /// 500: the server could not finish in time; retry.
    pub const SERVER_TIMEOUT: Self = Self(Cow::Borrowed("ServerTimeout"));
    /// 500: a stored object cannot be read.
    pub const STORE_READ_ERROR: Self = Self(Cow::Borrowed("StorageReadError"));
    /// 504: the request may still be in progress.
    pub const TIMEOUT: Self = Self(Cow::Borrowed("Timeout"));
    /// 429.
    pub const TOO_MANY_REQUESTS: Self = Self(Cow::Borrowed("TooManyRequests"));
    /// 400.
    pub const BAD_REQUEST: Self = Self(Cow::Borrowed("BadRequest"));
    /// 405.
    pub const METHOD_NOT_ALLOWED: Self = Self(Cow::Borrowed("MethodNotAllowed"));
    /// 406.
    pub const NOT_ACCEPTABLE: Self = Self(Cow::Borrowed("NotAcceptable"));
    /// 413.
    pub const REQUEST_ENTITY_TOO_LARGE: Self = Self(Cow::Borrowed("RequestEntityTooLarge"));
    /// 415.
    pub const UNSUPPORTED_MEDIA_TYPE: Self = Self(Cow::Borrowed("UnsupportedMediaType"));
    /// 500.
    pub const INTERNAL_ERROR: Self = Self(Cow::Borrowed("InternalError"));
    /// 410: the requested version was compacted.
    pub const EXPIRED: Self = Self(Cow::Borrowed("Expired"));
    /// 503.
    pub const SERVICE_UNAVAILABLE: Self = Self(Cow::Borrowed("ServiceUnavailable"));

    /// Any reason.
    pub fn new(word: impl Into<Cow<'static, str>>) -> Self {
        Self(word.into())
    }

    /// The text on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StatusReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Status {
    /// The `kind` of the object.
    pub const KIND: &'static str = "Status";
    /// The `apiVersion` of the object.
    pub const API_VERSION: &'static str = "v1";

    /// The HTTP status of this body: 200 for a success without a code, 500 for a failure without a valid one.
    pub fn http_status(&self) -> http::StatusCode {
        let fallback = match self.is_success() {
            true => http::StatusCode::OK,
            false => http::StatusCode::INTERNAL_SERVER_ERROR,
        };
        let code = u16::try_from(self.code).ok();
        code.and_then(|code| http::StatusCode::from_u16(code).ok())
            .unwrap_or(fallback)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

impl Serialize for Status {
    /// Writes the fields in the order of a Kubernetes server, and omits the same ones.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Status", 8)?;
        out.serialize_field("kind", Self::KIND)?;
        out.serialize_field("apiVersion", Self::API_VERSION)?;
        out.serialize_field("metadata", &self.metadata)?;
        if self.status != Outcome::Unstated {
            out.serialize_field("status", &self.status)?;
        }
        if !self.message.is_empty() {
            out.serialize_field("message", &self.message)?;
        }
        if self.reason != StatusReason::UNKNOWN {
            out.serialize_field("reason", &self.reason)?;
        }
        if let Some(details) = &self.details {
            out.serialize_field("details", details)?;
        }
        if self.code != 0 {
            out.serialize_field("code", &self.code)?;
        }
        out.end()
    }
}

/// Go servers write `null` for some empty values.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn is_zero(value: &i32) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupResource;

    #[test]
    fn a_failure_is_written_as_a_go_server_writes_it() {
        let status = Status::not_found(&GroupResource::new("", "configmaps"), "nope");
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"nope\" not found","reason":"NotFound","details":{"name":"nope","kind":"configmaps"},"code":404}"#
        );
    }

    #[test]
    fn a_success_names_no_code() {
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a","group":"apps","kind":"deployments","uid":"u"}}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        assert!(status.is_success());
        assert_eq!(status.http_status(), 200);
        assert_eq!(serde_json::to_string(&status).unwrap(), text);
    }

    #[test]
    fn a_status_is_small_enough_to_be_an_error() {
        assert!(size_of::<Status>() <= 128, "{}", size_of::<Status>());
    }

    #[test]
    fn nulls_and_missing_fields_read_as_empty() {
        let status: Status =
            serde_json::from_str(r#"{"metadata":null,"details":{"causes":null},"code":404}"#).unwrap();
        assert_eq!(status.details, Some(Box::default()));
        assert_eq!(status.status, Outcome::Unstated);
        assert!(status.is_not_found());
    }
}
