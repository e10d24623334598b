//! Errors of requests: the request, the step that failed, and the reason.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::Method;
use watchkeeper_meta::Status;

use crate::auth::AuthError;
use crate::transport::{BodyError, TransportError};

/// A request that failed.
///
/// Callers use predicates ([`Error::is_not_found`]); the text is for people. It prints as `GET https://host/api/v1/…:
/// pods "a" not found`, followed by the error of an earlier attempt, if there was one.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    method: Method,
    url: String,
    kind: ErrorKind,
    previous: Option<String>,
}

/// The step that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server answered with a failure.
    #[error("{}", .0.message)]
    Status(Status),
    /// There was no answer.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// No credential is available.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The answer was incomplete.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The time limit passed before the answer.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The server redirects, which API servers do not do.
    #[error("the server redirects to {0:?}; is this a Kubernetes API server?")]
    Redirect(String),
    /// A successful answer in an unknown format.
    #[error("the answer is {content_type:?} beginning with {start:?}; is this a Kubernetes API server?")]
    NotKubernetes {
        /// Its content type.
        content_type: String,
        /// Its beginning.
        start: String,
    },
    /// The answer cannot be decoded.
    #[error("the answer cannot be read: {0}")]
    Decode(String),
    /// The request cannot be built.
    #[error("{0}")]
    Request(String),
    /// The WebSocket broke before it was closed.
    #[error("the WebSocket broke: {0}")]
    WebSocket(String),
    /// The server refused the protocol upgrade.
    #[error("the server does not upgrade the connection: {0}")]
    Upgrade(String),
}

impl Error {
    pub(crate) fn new(method: &Method, url: impl Into<String>, kind: impl Into<ErrorKind>) -> Self {
        Self(Box::new(Inner {
            method: method.clone(),
            url: url.into(),
            kind: kind.into(),
            previous: None,
        }))
    }

    /// Adds the error of an earlier attempt: the last one alone is often only a symptom.
    pub(crate) fn after(mut self, previous: Option<String>) -> Self {
        self.0.previous = previous;
        self
    }

    /// The HTTP method.
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// The step that failed.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The server's `Status`, if it answered.
    pub fn status(&self) -> Option<&Status> {
        match &self.0.kind {
            ErrorKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The object, or the resource, does not exist.
    pub fn is_not_found(&self) -> bool {
        self.asks(Status::is_not_found)
    }

    /// An object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.asks(Status::is_already_exists)
    }

    /// The object has changed since it was read, or another manager owns a field.
    pub fn is_conflict(&self) -> bool {
        self.asks(Status::is_conflict)
    }

    /// The version or the continue token has expired: start again.
    pub fn is_expired(&self) -> bool {
        self.asks(Status::is_expired)
    }

    /// Validation failed.
    pub fn is_invalid(&self) -> bool {
        self.asks(Status::is_invalid)
    }

    /// The request is malformed.
    pub fn is_bad_request(&self) -> bool {
        self.asks(Status::is_bad_request)
    }

    /// Credentials are missing or invalid.
    pub fn is_unauthorized(&self) -> bool {
        self.asks(Status::is_unauthorized)
    }

    /// The user may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.asks(Status::is_forbidden)
    }

    /// The server cannot answer in an accepted encoding.
    pub fn is_not_acceptable(&self) -> bool {
        self.asks(Status::is_not_acceptable)
    }

    /// The server cannot read the encoding of the body.
    pub fn is_unsupported_media_type(&self) -> bool {
        self.asks(Status::is_unsupported_media_type)
    }

    /// The client must slow down.
    pub fn is_too_many_requests(&self) -> bool {
        self.asks(Status::is_too_many_requests)
    }

    /// The server could not finish in time.
    pub fn is_timeout(&self) -> bool {
        self.asks(|status| status.is_timeout() || status.is_server_timeout())
    }

    /// The server has not reached the requested version.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.asks(Status::is_too_large_resource_version)
    }

    /// An internal error of the server.
    pub fn is_internal_error(&self) -> bool {
        self.asks(Status::is_internal_error)
    }

    /// The server is unavailable.
    pub fn is_service_unavailable(&self) -> bool {
        self.asks(Status::is_service_unavailable)
    }

    /// Nothing listens at the server's address.
    pub fn is_connection_refused(&self) -> bool {
        matches!(&self.0.kind, ErrorKind::Transport(error) if error.is_connection_refused())
    }

    /// The connection broke before or during the answer.
    pub fn is_connection_lost(&self) -> bool {
        matches!(
            &self.0.kind,
            ErrorKind::Transport(TransportError::Lost { .. } | TransportError::NotSent { .. })
                | ErrorKind::Body(BodyError::Lost { .. })
                | ErrorKind::WebSocket(_)
        )
    }

    /// The client's own deadline passed.
    pub fn is_deadline(&self) -> bool {
        matches!(
            &self.0.kind,
            ErrorKind::Deadline(_) | ErrorKind::Body(BodyError::Deadline)
        )
    }

    /// The same request may succeed later: the server was not reached, was busy, or failed internally. A write may
    /// have been processed nevertheless.
    pub fn is_transient(&self) -> bool {
        self.is_connection_refused()
            || self.is_connection_lost()
            || self.is_too_many_requests()
            || self.is_service_unavailable()
            || self.is_timeout()
            || self.is_internal_error()
    }

    /// The delay the server asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        self.status()?.retry_after()
    }

    fn asks(&self, question: impl FnOnce(&Status) -> bool) -> bool {
        self.status().is_some_and(question)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            method,
            url,
            kind,
            previous,
        } = &*self.0;
        write!(f, "{method} {url}: {kind}")?;
        match previous {
            Some(previous) => write!(f, " - error from a previous attempt: {previous}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.kind.source()
    }
}
