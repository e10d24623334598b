//! The attempts of one request: throttle, authenticate, send, classify the answer, retry.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use jiff::Timestamp;
use tokio::time::{Instant, timeout, timeout_at};
use watchkeeper_meta::{GroupResource, Status, error_chain};

use super::{Inner, SendOptions};
use crate::auth::Proof;
use crate::dynamic::{encoding, read_status};
use crate::error::{Error, ErrorKind};
use crate::metrics::Series;
use crate::retry::{self, MAX_RETRIES};
use crate::trace::Trace;
use crate::transport::{Body, Lane, Obtained, TransportError};

/// The largest body of a failure that is read.
const MAX_STATUS: usize = 1 << 20;

/// The part of an answer that is not a `Status` shown in errors, as in client-go.
const MAX_PLAIN: usize = 2048;

/// The time a server may take to answer an upgrade request. It does so before anything else, so silence means a dead
/// peer or a proxy that does not know the protocol.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(45);

/// The number of times a request may find its connection closed before it was written.
const MAX_UNSENT: usize = 3;

/// The attempts of one request.
pub(super) struct Attempts<'a> {
    client: &'a Inner,
    request: Request<Bytes>,
    pub(super) lane: Lane,
    watch: bool,
    throttled: bool,
    previous: Option<String>,
    attempts: usize,
    /// An attempt is in progress.
    asking: bool,
    /// The metrics of the request.
    series: Option<Arc<Series>>,
    /// The credential has been renewed once.
    renewed: bool,
}

/// The result of an attempt.
enum Verdict {
    Good(Box<Response<Body>>),
    /// There is a new credential to try.
    Renewed,
    /// With the delay of the retry, if any.
    Failed(Error, Option<Duration>),
}

impl<'a> Attempts<'a> {
    pub(super) fn new(
        client: &'a Inner,
        mut request: Request<Bytes>,
        options: &SendOptions,
    ) -> Result<Self, Error> {
        if let Some(path) = client.path(request.uri(), options.watch) {
            let parsed = path.parse();
            *request.uri_mut() = parsed.map_err(|error| {
                let url = format!("{}{path}", client.origin);
                Error::new(request.method(), url, ErrorKind::Request(format!("{error}")))
            })?;
        }
        client.prepare(request.headers_mut());
        let metrics = client.options.metrics.as_ref();
        let series = metrics.map(|metrics| metrics.series(&client.host, request.method()));
        Ok(Self {
            client,
            request,
            lane: match options.watch {
                true => Lane::Multiplexed,
                false => Lane::Short,
            },
            watch: options.watch,
            throttled: !options.watch && !options.unthrottled,
            previous: None,
            attempts: 0,
            asking: false,
            series,
            renewed: false,
        })
    }

    /// Retries until there is a good answer, or an error that a retry would not change. The limit covers all attempts
    /// and the answer's body.
    pub(super) async fn run(&mut self, limit: Option<Duration>) -> Result<Response<Body>, Error> {
        let begun = Instant::now();
        let result = match limit {
            Some(limit) => self.run_within(limit).await,
            None => self.run_attempts().await,
        };
        if let Some(series) = &self.series {
            series.finished(begun.elapsed());
        }
        result
    }

    async fn run_within(&mut self, limit: Duration) -> Result<Response<Body>, Error> {
        // A limit beyond the range of the clock is no limit.
        let Some(deadline) = Instant::now().checked_add(limit) else {
            return self.run_attempts().await;
        };
        let Ok(result) = timeout_at(deadline, self.run_attempts()).await else {
            if self.asking {
                self.count(None);
            }
            let previous = self.previous.take();
            return Err(self.error(ErrorKind::Deadline(limit)).after(previous));
        };
        result.map(|mut response| {
            response.body_mut().set_deadline(deadline);
            response
        })
    }

    async fn run_attempts(&mut self) -> Result<Response<Body>, Error> {
        let mut retries = 0;
        loop {
            self.throttle().await;
            self.asking = true;
            let attempt = self.attempt().await;
            self.asking = false;
            match &attempt {
                Ok((response, _)) => self.count(Some(response.status())),
                // Without a credential, no attempt was made.
                Err(error) if matches!(error.kind(), ErrorKind::Auth(_)) => {}
                Err(_) => self.count(None),
            }
            let (error, wait) = match self.judge(attempt).await {
                Verdict::Good(response) => return Ok(*response),
                Verdict::Renewed => continue,
                Verdict::Failed(error, wait) => (error, wait),
            };
            let Some(wait) = wait.filter(|_| retries < MAX_RETRIES) else {
                return Err(error.after(self.previous.take()));
            };
            retries += 1;
            let text = error_chain(&error);
            tracing::debug!(error = %text, ?wait, "retrying");
            self.previous = Some(text);
            tokio::time::sleep(wait).await;
        }
    }

    async fn judge(&mut self, attempt: Result<(Response<Body>, Proof), Error>) -> Verdict {
        let (response, proof) = match attempt {
            Ok(answer) => answer,
            Err(error) => {
                let wait = self.wait_after(&error);
                return Verdict::Failed(error, wait);
            }
        };
        if self.is_wanted(&response) {
            return Verdict::Good(Box::new(response));
        }
        // A 401 precedes any effect, so any verb may be repeated once with a new credential.
        if response.status() == StatusCode::UNAUTHORIZED
            && !std::mem::replace(&mut self.renewed, true)
            && self.client.auth.rejected(&proof).await
        {
            return Verdict::Renewed;
        }
        let wait = retry::after_answer(response.status(), response.headers(), Timestamp::now());
        Verdict::Failed(self.failure(response).await, wait)
    }

    /// True for success or the expected answer: a protocol upgrade, or 304 to a conditional request.
    fn is_wanted(&self, response: &Response<Body>) -> bool {
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => self.lane == Lane::Upgrade,
            StatusCode::NOT_MODIFIED => self.request.headers().contains_key(header::IF_NONE_MATCH),
            status => status.is_success(),
        }
    }

    async fn throttle(&self) {
        if let Some(bucket) = self.client.bucket.as_ref().filter(|_| self.throttled) {
            let waited = bucket.wait().await;
            if let Some(series) = &self.series {
                series.throttled(waited);
            }
            if waited > Duration::from_secs(1) {
                tracing::info!(?waited, url = %self.url(), "waited for the client's own rate limit");
            }
        }
    }

    /// Sends once. The answer may have any status.
    async fn attempt(&self) -> Result<(Response<Body>, Proof), Error> {
        let proof = self.client.auth.proof().await;
        let proof = proof.map_err(|error| self.error(error))?;
        // A connection may close between being chosen and being written to. The request then goes to another one,
        // whatever its verb.
        let mut unsent = 0;
        loop {
            let sending = self.send(&proof);
            let sent = match self.lane {
                Lane::Multiplexed | Lane::Short => sending.await,
                Lane::Upgrade => timeout(UPGRADE_TIMEOUT, sending)
                    .await
                    .map_err(|_| self.error(ErrorKind::Deadline(UPGRADE_TIMEOUT)))?,
            };
            match sent {
                Ok(response) => return Ok((response, proof)),
                Err(TransportError::NotSent { .. }) if unsent < MAX_UNSENT => unsent += 1,
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    async fn send(&self, proof: &Proof) -> Result<Response<Body>, TransportError> {
        let mut request = self.request.clone();
        self.client.auth.apply(proof, request.headers_mut());
        let trace = Trace::begin(self.client.options.verbosity, &request, || self.url());
        let mut obtained = None;
        let identity = proof.identity.as_ref();
        let sent = self
            .client
            .pool
            .send(request, self.lane, identity, &mut obtained)
            .await;
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                trace.failed(&error);
                return Err(error);
            }
        };
        trace.answered(&mut response, obtained.as_ref());
        // In-process connections resolve no name.
        if let (Some(Obtained::Opened(opening)), Some(metrics)) = (obtained, &self.client.options.metrics)
            && opening.peer.is_some()
        {
            metrics.resolved(&self.client.host, opening.look_up);
        }
        if let Some(series) = self.series.as_ref().filter(|_| !self.watch) {
            response.body_mut().count_into(series.clone());
        }
        self.client.receive(&mut response);
        Ok(response)
    }

    /// Counts a finished attempt.
    fn count(&mut self, status: Option<StatusCode>) {
        let is_retry = self.attempts > 0;
        self.attempts += 1;
        if let Some(series) = &self.series {
            series.attempted(status, is_retry, self.request.body().len());
        }
    }

    fn wait_after(&self, error: &Error) -> Option<Duration> {
        match error.kind() {
            ErrorKind::Transport(error) => retry::after_loss(self.request.method(), error),
            _ => None,
        }
    }

    /// The error of an unsuccessful answer.
    async fn failure(&self, response: Response<Body>) -> Error {
        let (head, mut body) = response.into_parts();
        if head.status.is_redirection() {
            let location = head
                .headers
                .get(header::LOCATION)
                .map(|value| value.as_bytes())
                .unwrap_or_default();
            return self.error(ErrorKind::Redirect(
                String::from_utf8_lossy(location).into_owned(),
            ));
        }
        // After a truncated body, the status code still says most of it.
        let bytes = body.collect(MAX_STATUS).await.unwrap_or_default();
        let status = encoding(&head.headers).and_then(|encoding| read_status(encoding, &bytes));
        let mut status = status.unwrap_or_else(|| self.plain(head.status, &bytes));
        if status.code == 0 {
            status.code = i32::from(head.status.as_u16());
        }
        // Servers under load send only the header; it is added to the error.
        let wait = retry::asked_for(head.status, &head.headers, Timestamp::now());
        if let Some(wait) = wait.filter(|_| status.retry_after().is_none()) {
            let seconds = i32::try_from(wait.as_secs()).unwrap_or(i32::MAX);
            status = status.with_retry_after(seconds);
        }
        self.error(ErrorKind::Status(status))
    }

    fn plain(&self, status: StatusCode, bytes: &[u8]) -> Status {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_PLAIN)]);
        let resource = GroupResource::default();
        Status::from_plain_answer(
            status.as_u16(),
            self.request.method().as_str(),
            &resource,
            "",
            text.trim(),
        )
    }

    pub(super) fn error(&self, kind: impl Into<ErrorKind>) -> Error {
        Error::new(self.request.method(), self.url(), kind)
    }

    /// Built only when it is needed.
    fn url(&self) -> String {
        format!("{}{}", self.client.origin, self.request.uri())
    }
}
