//! Answers that are not a `Status`: plain text from a proxy, an unknown path, an overloaded server.
//!
//! They are classified by their status code alone, and each code has a fixed message. A server uses the same messages
//! for unknown paths.

use std::borrow::Cow;

use super::failures::about;
use super::{Status, StatusCause, StatusReason};
use crate::GroupResource;
use crate::quote::quote;

/// The cause that marks an answer that was not a `Status`.
pub(super) const CAUSE_UNEXPECTED_RESPONSE: &str = "UnexpectedServerResponse";

impl Status {
    /// Makes a `Status` from an answer that is not one. `body` is the beginning of its text.
    pub fn from_plain_answer(
        code: u16,
        method: &str,
        resource: &GroupResource,
        name: &str,
        body: &str,
    ) -> Self {
        Self::generic(code, method, resource, name, body).with_cause(StatusCause {
            reason: Cow::Borrowed(CAUSE_UNEXPECTED_RESPONSE),
            message: body.to_owned(),
            field: String::new(),
        })
    }

    /// The message of a status code, about a resource if one is named.
    pub fn generic(code: u16, method: &str, resource: &GroupResource, name: &str, body: &str) -> Self {
        let (reason, mut message) = sentence(code, method, body);
        if !resource.resource.is_empty() || !resource.group.is_empty() {
            let verb = method.to_ascii_lowercase();
            message.push_str(&match name {
                "" => format!(" ({verb} {resource})"),
                name => format!(" ({verb} {resource} {name})"),
            });
        }
        Self::failure(i32::from(code), reason, message).with_details(about(resource, name))
    }

    /// The path does not support the method (405).
    pub fn method_not_allowed() -> Self {
        Self::generic(405, "", &GroupResource::default(), "", "")
    }

    /// The path is unknown (404).
    pub fn path_not_found() -> Self {
        Self::generic(404, "", &GroupResource::default(), "", "")
    }
}

/// The meaning of a bare status code.
fn sentence(code: u16, method: &str, body: &str) -> (StatusReason, String) {
    let (reason, message) = match code {
        400 => (
            StatusReason::BAD_REQUEST,
            "the server rejected our request for an unknown reason",
        ),
        401 => (
            StatusReason::UNAUTHORIZED,
            "the server has asked for the client to provide credentials",
        ),
        403 => (StatusReason::FORBIDDEN, body),
        404 => (
            StatusReason::NOT_FOUND,
            "the server could not find the requested resource",
        ),
        405 => (
            StatusReason::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        ),
        406 if body.is_empty() || body == "unknown" => (
            StatusReason::NOT_ACCEPTABLE,
            "the server was unable to respond with a content type that the client supports",
        ),
        406 => (StatusReason::NOT_ACCEPTABLE, body),
        409 if method == "POST" => (StatusReason::ALREADY_EXISTS, "the server reported a conflict"),
        409 => (StatusReason::CONFLICT, "the server reported a conflict"),
        415 => (StatusReason::UNSUPPORTED_MEDIA_TYPE, body),
        422 => (
            StatusReason::INVALID,
            "the server rejected our request due to an error in our request",
        ),
        429 => (
            StatusReason::TOO_MANY_REQUESTS,
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (
            StatusReason::SERVICE_UNAVAILABLE,
            "the server is currently unable to handle the request",
        ),
        504 => (
            StatusReason::TIMEOUT,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        500.. => {
            let quoted = quote(body);
            let message =
                format!("an error on the server ({quoted}) has prevented the request from succeeding");
            return (StatusReason::INTERNAL_ERROR, message);
        }
        code => {
            let message = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            return (StatusReason::UNKNOWN, message);
        }
    };
    (reason, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Status, code: i32, reason: &str, message: &str) {
        assert_eq!((status.code, status.reason.as_str()), (code, reason), "{message}");
        assert_eq!(status.message, message);
    }

    #[test]
    fn plain_answers_are_judged_by_their_code() {
        let pods = GroupResource::new("", "pods");
        check(
            Status::from_plain_answer(404, "GET", &pods, "a", "404 page not found"),
            404,
            "NotFound",
            "the server could not find the requested resource (get pods a)",
        );
        check(
            Status::from_plain_answer(502, "GET", &GroupResource::default(), "", "bad gateway"),
            502,
            "InternalError",
            r#"an error on the server ("bad gateway") has prevented the request from succeeding"#,
        );
        check(
            Status::from_plain_answer(302, "GET", &GroupResource::default(), "", ""),
            302,
            "",
            "the server responded with the status code 302 but did not return more information",
        );
        let allowed = serde_json::to_value(Status::method_not_allowed()).unwrap();
        assert_eq!(allowed["details"], serde_json::json!({}));
    }
}
