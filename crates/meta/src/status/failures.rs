//! The failures a server can report, one constructor each, with Kubernetes' texts.

use std::borrow::Cow;
use std::fmt;

use super::{Outcome, Status, StatusCause, StatusDetails, StatusReason};
use crate::field_error::{FieldError, FieldErrors, join_field_errors};
use crate::quote::quote;
use crate::{GroupKind, GroupResource, ListMeta};

/// The message of a write based on an old version.
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The message by which clients of all versions recognise this error.
pub(super) const TOO_LARGE_RESOURCE_VERSION: &str = "Too large resource version";

/// The cause that marks this error.
pub(super) const CAUSE_RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

impl Status {
    /// A success without details, as for binding a pod (201).
    pub fn success(code: i32) -> Self {
        Self {
            status: Outcome::Success,
            code,
            ..Self::default()
        }
    }

    /// The object was deleted; the code is omitted, as in Kubernetes.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut details = about(resource, name);
        details.uid = uid.to_owned();
        Self {
            details: Some(Box::new(details)),
            ..Self::success(0)
        }
    }

    /// Any failure.
    pub fn failure(code: i32, reason: StatusReason, message: impl Into<String>) -> Self {
        Self {
            status: Outcome::Failure,
            message: message.into(),
            reason,
            code,
            ..Self::default()
        }
    }

    /// The object does not exist (404).
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        Self::failure(404, StatusReason::NOT_FOUND, message).with_details(about(resource, name))
    }

    /// An object of that name exists (409).
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        Self::failure(409, StatusReason::ALREADY_EXISTS, message).with_details(about(resource, name))
    }

    /// An object of that name exists and is being deleted (409).
    pub fn being_deleted(resource: &GroupResource, name: &str) -> Self {
        let mut status = Self::already_exists(resource, name);
        status.message.insert_str(0, "object is being deleted: ");
        status
    }

    /// No free name was found for `generateName` (409).
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after_seconds: i32) -> Self {
        let mut status = Self::already_exists(resource, name);
        status
            .message
            .push_str(", the server was not able to generate a unique name for the object");
        status.with_retry_after(retry_after_seconds)
    }

    /// The write conflicts with another one (409).
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {why}",
            quote(name)
        );
        Self::failure(409, StatusReason::CONFLICT, message).with_details(about(resource, name))
    }

    /// The write was based on a version that is no longer the latest (409).
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(resource, name, MODIFIED)
    }

    /// Other managers own the fields (409); one cause per field.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<StatusCause>) -> Self {
        Self::failure(409, StatusReason::CONFLICT, message).with_details(StatusDetails {
            causes,
            ..Default::default()
        })
    }

    /// Validation errors (422). One cause per error, and one for those that were left out.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &FieldErrors) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&join_field_errors(errors));
        }
        let left_out = errors.remainder().map(|message| StatusCause {
            message,
            ..Default::default()
        });
        Self::failure(422, StatusReason::INVALID, message).with_details(StatusDetails {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: errors.iter().map(StatusCause::from).chain(left_out).collect(),
            ..Default::default()
        })
    }

    /// The request is malformed (400).
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, StatusReason::BAD_REQUEST, message)
    }

    /// Credentials are missing or invalid (401).
    pub fn unauthorized() -> Self {
        Self::failure(401, StatusReason::UNAUTHORIZED, "Unauthorized")
    }

    /// The request is refused (403). The name is empty for a whole collection, the resource for a non-resource path.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {} is forbidden: {why}", quote(name)),
        };
        Self::failure(403, StatusReason::FORBIDDEN, message).with_details(about(resource, name))
    }

    /// The resource does not support the verb (405).
    pub fn method_not_supported(resource: &GroupResource, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind {}",
            quote(&resource.to_string())
        );
        Self::failure(405, StatusReason::METHOD_NOT_ALLOWED, message).with_details(about(resource, ""))
    }

    /// The server has none of the encodings the client accepts (406).
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::failure(406, StatusReason::NOT_ACCEPTABLE, message)
    }

    /// Like [`Status::not_acceptable`], with the list of supported encodings.
    pub fn only_accepted(media_types: &[&str]) -> Self {
        let types = media_types.join(", ");
        Self::not_acceptable(format!("only the following media types are accepted: {types}"))
    }

    /// The server cannot read the encoding of the body (415).
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::failure(415, StatusReason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// Like [`Status::unsupported_media_type`], with the list of supported encodings.
    pub fn unknown_body_format(media_types: &[&str]) -> Self {
        let types = media_types.join(", ");
        Self::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {types}"
        ))
    }

    /// The client must slow down (429).
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Self {
        Self::failure(429, StatusReason::TOO_MANY_REQUESTS, message).with_retry_after(retry_after_seconds)
    }

    /// The requested version was compacted (410).
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, StatusReason::EXPIRED, message)
    }

    /// The version of a list was compacted (410).
    pub fn list_expired() -> Self {
        Self::expired("The resourceVersion for the provided list is too old.")
    }

    /// The start version of a watch was compacted in the store (410).
    pub fn watch_expired() -> Self {
        Self::expired("The resourceVersion for the provided watch is too old.")
    }

    /// The start version of a watch is older than the history, which starts after `oldest` (410).
    pub fn too_old_resource_version(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// The snapshot of a continue token was compacted (410). With the replacement token the client can continue with
    /// the current state; an empty one means that it must list again.
    pub fn continue_expired(replacement: &str) -> Self {
        let start = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter";
        if replacement.is_empty() {
            return Self::expired(format!("{start}."));
        }
        let mut status = Self::expired(format!(
            "{start}, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
        ));
        status.metadata = ListMeta {
            continue_token: replacement.to_owned(),
            ..Default::default()
        };
        status
    }

    /// The requested thing is permanently gone (410, the older reason).
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, StatusReason::GONE, message)
    }

    /// The request did not finish in time and may still be in progress (504).
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: i32) -> Self {
        Self::failure(504, StatusReason::TIMEOUT, format!("Timeout: {message}"))
            .with_retry_after(retry_after_seconds)
    }

    /// The store has not reached the requested version yet (504).
    pub fn too_large_resource_version(requested: u64, current: u64, retry_after_seconds: i32) -> Self {
        let message = format!("{TOO_LARGE_RESOURCE_VERSION}: {requested}, current: {current}");
        let cause = StatusCause {
            reason: Cow::Borrowed(CAUSE_RESOURCE_VERSION_TOO_LARGE),
            message: TOO_LARGE_RESOURCE_VERSION.to_owned(),
            field: String::new(),
        };
        Self::timeout(message, retry_after_seconds).with_cause(cause)
    }

    /// The server could not finish in time; retry (500).
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: i32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Self::failure(500, StatusReason::SERVER_TIMEOUT, message)
            .with_details(about(resource, ""))
            .with_retry_after(retry_after_seconds)
    }

    /// The body is too large (413).
    pub fn request_entity_too_large(message: impl fmt::Display) -> Self {
        let message = format!("Request entity too large: {message}");
        Self::failure(413, StatusReason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// An internal error of the server (500).
    pub fn internal_error(why: impl fmt::Display) -> Self {
        let cause = StatusCause {
            message: why.to_string(),
            ..Default::default()
        };
        let message = format!("Internal error occurred: {why}");
        Self::failure(500, StatusReason::INTERNAL_ERROR, message).with_cause(cause)
    }

    /// An error without a reason (500), as Kubernetes reports errors it did not foresee.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::failure(500, StatusReason::UNKNOWN, message)
    }

    /// The server is unavailable (503).
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, StatusReason::SERVICE_UNAVAILABLE, message)
    }

    /// Sets the seconds to wait before a retry; 0 sets none but creates the details.
    pub fn with_retry_after(mut self, seconds: i32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Adds a cause.
    pub fn with_cause(mut self, cause: StatusCause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    pub(super) fn with_details(mut self, details: StatusDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }
}

impl From<&FieldError> for StatusCause {
    fn from(error: &FieldError) -> Self {
        Self {
            reason: Cow::Borrowed(error.kind.as_str()),
            message: error.body(),
            field: error.field.to_string(),
        }
    }
}

pub(super) fn about(resource: &GroupResource, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.to_owned(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldPath;

    fn check(status: Status, code: i32, reason: &str, message: &str) {
        assert_eq!((status.code, status.reason.as_str()), (code, reason), "{message}");
        assert_eq!(status.message, message);
    }

    #[test]
    fn texts_are_kubernetes_own() {
        let pods = GroupResource::new("", "pods");
        let deployments = GroupResource::new("apps", "deployments");
        check(
            Status::not_found(&deployments, "a"),
            404,
            "NotFound",
            r#"deployments.apps "a" not found"#,
        );
        check(
            Status::being_deleted(&pods, "a"),
            409,
            "AlreadyExists",
            r#"object is being deleted: pods "a" already exists"#,
        );
        check(
            Status::generate_name_conflict(&pods, "x-abcde", 1),
            409,
            "AlreadyExists",
            r#"pods "x-abcde" already exists, the server was not able to generate a unique name for the object"#,
        );
        check(
            Status::modified(&deployments, "web"),
            409,
            "Conflict",
            r#"Operation cannot be fulfilled on deployments.apps "web": the object has been modified; please apply your changes to the latest version and try again"#,
        );
        check(
            Status::forbidden(
                &GroupResource::new("", "namespaces"),
                "default",
                "this namespace may not be deleted",
            ),
            403,
            "Forbidden",
            r#"namespaces "default" is forbidden: this namespace may not be deleted"#,
        );
        check(
            Status::method_not_supported(&GroupResource::new("example.com", "foos"), "create"),
            405,
            "MethodNotAllowed",
            r#"create is not supported on resources of kind "foos.example.com""#,
        );
        check(
            Status::server_timeout(&pods, "get", 2),
            500,
            "ServerTimeout",
            "The get operation against pods could not be completed at this time, please try again.",
        );
        check(
            Status::request_entity_too_large("limit is 3145728"),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: limit is 3145728",
        );
        check(
            Status::internal_error("boom"),
            500,
            "InternalError",
            "Internal error occurred: boom",
        );
        check(
            Status::only_accepted(&["application/json", "application/yaml"]),
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json, application/yaml",
        );
        check(
            Status::too_old_resource_version(5, 1024),
            410,
            "Expired",
            "too old resource version: 5 (1024)",
        );
    }

    #[test]
    fn errors_become_one_message_and_many_causes() {
        let spec = FieldPath::new("spec");
        let errors = FieldErrors::from_iter([
            FieldError::required(&spec.child("a"), ""),
            FieldError::invalid(&spec.child("b"), 1, "must be 2"),
        ]);
        let status = Status::invalid(&GroupKind::new("apps", "Deployment"), "web", &errors);
        assert_eq!(
            serde_json::to_value(&status).unwrap(),
            serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": r#"Deployment.apps "web" is invalid: [spec.a: Required value, spec.b: Invalid value: 1: must be 2]"#,
                "reason": "Invalid",
                "details": {"name": "web", "group": "apps", "kind": "Deployment", "causes": [
                    {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
                    {"reason": "FieldValueInvalid", "message": "Invalid value: 1: must be 2", "field": "spec.b"},
                ]},
                "code": 422,
            })
        );
    }

    #[test]
    fn a_version_from_the_future_names_its_cause() {
        let status = Status::too_large_resource_version(999_999_999, 805, 1);
        assert_eq!(
            serde_json::to_string(&status).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: 805","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#
        );
    }
}
