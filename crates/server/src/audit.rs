//! The audit log: requests and their results, as lines of `audit.k8s.io/v1` events.
//!
//! A [policy](policy) selects the level of each request. Events go through a bounded queue to a thread that writes
//! and rotates the [file](log_file). Requests never wait for the disk: if the queue is full, events are dropped and
//! counted, and the server logs how many.
//!
//! Objects of requests and responses are included if they are JSON, not if they are protobuf or YAML. Admission adds
//! annotations: those of policies and webhooks, validation failures of bindings that audit, whether a webhook changed
//! the object, its patch if the event shows the object, and ignored failures of webhooks. Not included is pod security.

mod event;
mod log_file;
mod policy;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use watchkeeper_registry::{AuditAnnotations, Clock, Decision, User};

use crate::body::ResponseBody;
use crate::filter::Call;
use crate::metrics::AuditFigures;
use crate::respond::Answer;
use event::Event;
pub use log_file::AuditLogOptions;
use log_file::LogFile;
pub use policy::AuditPolicyError;
use policy::{AuditPolicy, Level, RequestAuditConfig, Stage};

/// The configuration of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditOptions {
    /// The `audit.k8s.io/v1` Policy.
    pub policy_file: PathBuf,
    /// The file and its rotation.
    pub log: AuditLogOptions,
}

/// The reason there is no audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The policy is invalid.
    #[error("cannot use the audit policy")]
    Policy(#[from] AuditPolicyError),
    /// The log cannot be written.
    #[error("cannot open the audit log {path}")]
    Log {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

/// The audit log of a server.
#[derive(Debug)]
pub(crate) struct Audit {
    policy: AuditPolicy,
    log: LogFile,
}

/// The audit event of one request, as far as it is known.
#[derive(Debug)]
pub(crate) struct Audited {
    audit: Arc<Audit>,
    rule: RequestAuditConfig,
    event: Event,
}

impl Audit {
    /// Reads the policy and opens the log.
    pub(crate) fn open(options: &AuditOptions) -> Result<Arc<Self>, AuditError> {
        let policy = AuditPolicy::read(&options.policy_file)?;
        let log = LogFile::open(options.log.clone()).map_err(|source| AuditError::Log {
            path: options.log.path.clone(),
            source,
        })?;
        Ok(Arc::new(Self { policy, log }))
    }

    /// Starts the audit event of an authenticated request; `None` if the policy excludes it.
    pub(crate) fn begin(self: &Arc<Self>, call: &Call, impersonator: Option<&User>) -> Option<Box<Audited>> {
        let rule = self.policy.rule_for(&call.user, &call.info)?;
        let audited = Audited {
            event: Event::new(call, impersonator, rule.level),
            rule,
            audit: self.clone(),
        };
        audited.log(Stage::RequestReceived);
        Some(Box::new(audited))
    }

    /// The events so far, for `/metrics`.
    pub(crate) fn figures(&self) -> AuditFigures {
        self.log.figures()
    }

    /// Writes the queued events; later ones are ignored.
    pub(crate) fn close(&self) {
        self.log.close();
    }
}

impl Audited {
    /// The annotations that admission adds.
    pub(crate) fn annotations(&self) -> Arc<AuditAnnotations> {
        self.event.admission.clone()
    }

    /// Records the decision of the authorizer.
    pub(crate) fn decided(&mut self, decision: &Decision) {
        let (Decision::Allowed(reason) | Decision::Refused(reason)) = decision;
        self.event.decided(decision.is_allowed(), reason);
    }

    /// Records the body of the request.
    pub(crate) fn record_request_body(&mut self, body: &Bytes) {
        if self.rule.level >= Level::Request {
            self.event.request_object = event::json(body);
        }
    }

    fn answered(&mut self, code: u16, body: Option<&Bytes>) {
        let body = body.and_then(event::json);
        self.event.answered(code, body.as_ref());
        if self.rule.level >= Level::RequestResponse {
            self.event.response_object = body;
        }
    }

    fn log(&self, stage: Stage) {
        if !self.rule.omits(stage) {
            self.audit.log.write(self.event.line(stage, Clock.now()));
        }
    }
}

/// Parses a policy; the error describes the fault.
pub(crate) fn check_policy(text: &[u8]) -> Result<(), String> {
    AuditPolicy::parse(text).map(drop)
}

/// Logs the result of a request. The end of a stream is logged when it is dropped.
pub(crate) fn log(mut audited: Box<Audited>, answer: Answer) -> Answer {
    let whole = match answer.body() {
        ResponseBody::Whole(bytes) => bytes.as_ref(),
        _ => None,
    };
    audited.answered(answer.status().as_u16(), whole);
    let (head, body) = answer.into_parts();
    let body = match body {
        ResponseBody::Stream {
            frames,
            is_copied,
            unwritten,
        } => {
            audited.log(Stage::ResponseStarted);
            let end = End(audited);
            ResponseBody::Stream {
                // The guard is dropped with the stream.
                frames: Box::pin(frames.inspect(move |_| _ = &end)),
                is_copied,
                unwritten,
            }
        }
        body => {
            audited.log(Stage::ResponseComplete);
            body
        }
    };
    Answer::from_parts(head, body)
}

struct End(Box<Audited>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.log(Stage::ResponseComplete);
    }
}
