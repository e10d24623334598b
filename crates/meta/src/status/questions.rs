//! Predicates on a failure, decided by the reason, or by the code if there is no known reason.

use std::time::Duration;

use super::failures::{CAUSE_RESOURCE_VERSION_TOO_LARGE, TOO_LARGE_RESOURCE_VERSION};
use super::plain_answer::CAUSE_UNEXPECTED_RESPONSE;
use super::{Outcome, Status, StatusReason};

/// The reasons that decide alone: with one of these, the code is ignored.
const KNOWN_REASONS: [StatusReason; 19] = [
    StatusReason::UNAUTHORIZED,
    StatusReason::FORBIDDEN,
    StatusReason::NOT_FOUND,
    StatusReason::ALREADY_EXISTS,
    StatusReason::CONFLICT,
    StatusReason::GONE,
    StatusReason::INVALID,
    StatusReason::SERVER_TIMEOUT,
    StatusReason::STORE_READ_ERROR,
    StatusReason::TIMEOUT,
    StatusReason::TOO_MANY_REQUESTS,
    StatusReason::BAD_REQUEST,
    StatusReason::METHOD_NOT_ALLOWED,
    StatusReason::NOT_ACCEPTABLE,
    StatusReason::REQUEST_ENTITY_TOO_LARGE,
    StatusReason::UNSUPPORTED_MEDIA_TYPE,
    StatusReason::INTERNAL_ERROR,
    StatusReason::EXPIRED,
    StatusReason::SERVICE_UNAVAILABLE,
];

impl Status {
    /// The request succeeded.
    pub fn is_success(&self) -> bool {
        self.status == Outcome::Success
    }

    /// The object or path does not exist.
    pub fn is_not_found(&self) -> bool {
        self.means(StatusReason::NOT_FOUND, 404)
    }

    /// A create found the name taken. A bare 409 is ambiguous and counts as a conflict.
    pub fn is_already_exists(&self) -> bool {
        self.reason == StatusReason::ALREADY_EXISTS
    }

    /// Another write came first: read again and retry.
    pub fn is_conflict(&self) -> bool {
        self.means(StatusReason::CONFLICT, 409)
    }

    /// The version was compacted: list again. Servers report it with two reasons, proxies with the code alone.
    pub fn is_expired(&self) -> bool {
        self.reason == StatusReason::EXPIRED || self.reason == StatusReason::GONE || self.code == 410
    }

    /// Validation failed; the causes name the fields.
    pub fn is_invalid(&self) -> bool {
        self.means(StatusReason::INVALID, 422)
    }

    /// The request is malformed.
    pub fn is_bad_request(&self) -> bool {
        self.means(StatusReason::BAD_REQUEST, 400)
    }

    /// Credentials are missing or invalid.
    pub fn is_unauthorized(&self) -> bool {
        self.means(StatusReason::UNAUTHORIZED, 401)
    }

    /// The user may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.means(StatusReason::FORBIDDEN, 403)
    }

    /// The resource does not support the verb.
    pub fn is_method_not_allowed(&self) -> bool {
        self.means(StatusReason::METHOD_NOT_ALLOWED, 405)
    }

    /// The server cannot answer in an accepted encoding.
    pub fn is_not_acceptable(&self) -> bool {
        self.means(StatusReason::NOT_ACCEPTABLE, 406)
    }

    /// The server cannot read the encoding of the body.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.means(StatusReason::UNSUPPORTED_MEDIA_TYPE, 415)
    }

    /// The body is too large. Any 413 counts, whatever its reason.
    pub fn is_request_entity_too_large(&self) -> bool {
        self.reason == StatusReason::REQUEST_ENTITY_TOO_LARGE || self.code == 413
    }

    /// The client must slow down. Any 429 counts, whatever its reason.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == StatusReason::TOO_MANY_REQUESTS || self.code == 429
    }

    /// The request timed out and may still be in progress.
    pub fn is_timeout(&self) -> bool {
        self.means(StatusReason::TIMEOUT, 504)
    }

    /// The server gave up and asks for a retry; nothing is in progress.
    pub fn is_server_timeout(&self) -> bool {
        self.reason == StatusReason::SERVER_TIMEOUT
    }

    /// An internal error of the server.
    pub fn is_internal_error(&self) -> bool {
        self.means(StatusReason::INTERNAL_ERROR, 500)
    }

    /// The server is unavailable.
    pub fn is_service_unavailable(&self) -> bool {
        self.means(StatusReason::SERVICE_UNAVAILABLE, 503)
    }

    /// The store has not reached the requested version: retry without one. Older servers set no cause, so the message
    /// is matched too.
    pub fn is_too_large_resource_version(&self) -> bool {
        if self.has_cause(CAUSE_RESOURCE_VERSION_TOO_LARGE) {
            return true;
        }
        let causes = self.details.iter().flat_map(|details| &details.causes);
        self.is_timeout()
            && (self.message.contains(TOO_LARGE_RESOURCE_VERSION)
                || causes
                    .into_iter()
                    .any(|cause| cause.message == TOO_LARGE_RESOURCE_VERSION))
    }

    /// The answer was not a `Status`; this one was made from its code.
    pub fn is_unexpected_response(&self) -> bool {
        self.has_cause(CAUSE_UNEXPECTED_RESPONSE)
    }

    /// True if one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        let mut causes = self.details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == reason)
    }

    /// The wait before the next attempt. Zero means at once; `None` means the server did not say.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        let asks = seconds > 0 || self.is_server_timeout();
        asks.then(|| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
    }

    fn means(&self, reason: StatusReason, code: i32) -> bool {
        self.reason == reason || (self.code == code && !KNOWN_REASONS.contains(&self.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupResource;

    fn bare(code: i32) -> Status {
        Status::failure(code, StatusReason::UNKNOWN, "")
    }

    #[test]
    fn a_known_reason_outweighs_the_code() {
        let mut status = Status::failure(404, StatusReason::FORBIDDEN, "");
        assert!(status.is_forbidden() && !status.is_not_found());
        status.reason = StatusReason::new("NeverHeardOf");
        assert!(status.is_not_found());
    }

    #[test]
    fn bare_codes_answer_most_questions() {
        type Question = fn(&Status) -> bool;
        let questions: [(i32, Question); 15] = [
            (400, Status::is_bad_request),
            (401, Status::is_unauthorized),
            (403, Status::is_forbidden),
            (404, Status::is_not_found),
            (405, Status::is_method_not_allowed),
            (406, Status::is_not_acceptable),
            (409, Status::is_conflict),
            (410, Status::is_expired),
            (413, Status::is_request_entity_too_large),
            (415, Status::is_unsupported_media_type),
            (422, Status::is_invalid),
            (429, Status::is_too_many_requests),
            (500, Status::is_internal_error),
            (503, Status::is_service_unavailable),
            (504, Status::is_timeout),
        ];
        for (code, question) in questions {
            for (other, _) in questions {
                assert_eq!(question(&bare(other)), code == other, "{code} {other}");
            }
        }
        assert!(!bare(409).is_already_exists() && !bare(500).is_server_timeout());
    }

    #[test]
    fn expired_has_three_forms() {
        for status in [Status::gone("x"), Status::list_expired(), bare(410)] {
            assert!(status.is_expired(), "{status:?}");
        }
        assert!(!Status::not_found(&GroupResource::default(), "").is_expired());
    }

    #[test]
    fn too_large_versions_are_known_by_cause_or_text() {
        assert!(Status::too_large_resource_version(9, 1, 1).is_too_large_resource_version());
        assert!(
            Status::timeout("Too large resource version: 9, current: 1", 1).is_too_large_resource_version()
        );
        assert!(!Status::timeout("x", 1).is_too_large_resource_version());
    }

    #[test]
    fn servers_ask_to_wait() {
        let seconds = |status: Status| status.retry_after().map(|wait| wait.as_secs());
        assert_eq!(seconds(Status::too_many_requests("", 3)), Some(3));
        assert_eq!(seconds(Status::too_many_requests("", 0)), None);
        assert_eq!(
            seconds(Status::server_timeout(&GroupResource::default(), "get", 0)),
            Some(0)
        );
        assert_eq!(seconds(bare(429)), None);
    }
}
