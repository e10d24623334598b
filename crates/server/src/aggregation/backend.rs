//! The connections to one aggregated API server.
//!
//! A connection carries one request at a time and is reused. A task of the server drives it and ends when its sender
//! is dropped: active requests finish, and idle connections close with the backend.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, request};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::TaskTracker;
use watchkeeper_registry::User;

use super::{ProxyIdentity, RemoteService, identify};
use crate::limits::{
    AGGREGATED_DIAL_TIMEOUT, AGGREGATED_IDLE_TIMEOUT, MAX_AGGREGATED_DOCUMENT_BYTES,
    MAX_IDLE_AGGREGATED_CONNECTIONS,
};
use crate::outgoing::{Trust, broken, connect, connector};

/// The body sent: a client's body as it arrives, or none.
pub(crate) type OutgoingBody = Either<Incoming, Full<Bytes>>;

/// The connections to one aggregated API server.
pub(crate) struct Backend {
    /// The name expected in the certificate: `name.namespace.svc`.
    host: String,
    tls: Result<TlsConnector, String>,
    idle: Mutex<Vec<Idle>>,
    tasks: TaskTracker,
}

/// An idle connection, or one that becomes idle with the end of its last response.
struct Idle {
    address: String,
    sender: SendRequest<OutgoingBody>,
    since: Instant,
}

/// A response read to its end.
pub(super) struct Fetched {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl Backend {
    pub(crate) fn new(service: &RemoteService, identity: Option<&ProxyIdentity>, tasks: TaskTracker) -> Self {
        let trust = match &service.authorities {
            _ if service.trusts_everyone => Trust::Everyone,
            Some(pem) => Trust::Authorities(pem),
            None => Trust::System,
        };
        Self {
            host: format!("{}.{}.svc", service.name, service.namespace),
            tls: connector(trust, identity.map(ProxyIdentity::client)),
            idle: Mutex::default(),
            tasks,
        }
    }

    /// The host name of requests.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request to an address; returns when the head of the response has arrived. The error has the text of
    /// Go's client.
    pub(crate) fn send<'a>(
        &'a self,
        address: &'a str,
        request: Request<OutgoingBody>,
    ) -> BoxFuture<'a, Result<Response<Incoming>, String>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // An idle connection may have been closed meanwhile. A GET without a body is retried.
            let again = (head.method == Method::GET && body.is_end_stream()).then(|| copy(&head));
            let mut request = Request::from_parts(head, body);
            if let Some(mut sender) = self.take_idle(address) {
                let sent = sender.try_send_request(request).await;
                request = match sent {
                    Ok(answer) => return Ok(self.kept(address, sender, answer)),
                    Err(mut failed) => match failed.take_message().or(again) {
                        Some(request) => request,
                        None => return Err(broken(&failed.into_error())),
                    },
                };
            }
            let dialled = timeout(AGGREGATED_DIAL_TIMEOUT, self.dial(address)).await;
            let mut sender = dialled.map_err(|_| format!("dial tcp {address}: i/o timeout"))??;
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|error| broken(&error))?;
            Ok(self.kept(address, sender, answer))
        })
    }

    /// Fetches a document for this server itself.
    pub(super) async fn get(
        &self,
        address: &str,
        path: &str,
        accept: &str,
        user: &User,
    ) -> Result<Fetched, String> {
        let mut request = Request::get(path)
            .header("host", &self.host)
            .header("accept", accept)
            .header("user-agent", "kube-apiserver-aggregator")
            .body(Either::Right(Full::default()))
            .map_err(|error| error.to_string())?;
        identify(request.headers_mut(), user);
        let answer = self.send(address, request).await?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MAX_AGGREGATED_DOCUMENT_BYTES)
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        Ok(Fetched { status, body })
    }

    async fn dial(&self, address: &str) -> Result<SendRequest<OutgoingBody>, String> {
        let tls = self.tls.as_ref().map_err(String::clone)?;
        let stream = connect(address, &self.host, tls).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        self.tasks.spawn(async move {
            // Requests receive their own errors.
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    fn take_idle(&self, address: &str) -> Option<SendRequest<OutgoingBody>> {
        let mut idle = self.idle.lock();
        idle.retain(|it| {
            !it.sender.is_closed() && (!it.sender.is_ready() || it.since.elapsed() < AGGREGATED_IDLE_TIMEOUT)
        });
        let is_usable = |it: &Idle| it.address == address && it.sender.is_ready();
        let index = idle.iter().position(is_usable)?;
        Some(idle.swap_remove(index).sender)
    }

    /// Keeps a connection for the next request, after the current response. Beyond the limit it is closed.
    fn kept(
        &self,
        address: &str,
        sender: SendRequest<OutgoingBody>,
        answer: Response<Incoming>,
    ) -> Response<Incoming> {
        let mut idle = self.idle.lock();
        if !self.tasks.is_closed() && idle.len() < MAX_IDLE_AGGREGATED_CONNECTIONS {
            idle.push(Idle {
                address: address.to_owned(),
                sender,
                since: Instant::now(),
            });
        }
        answer
    }

    /// Closes idle connections.
    pub(crate) fn close(&self) {
        self.idle.lock().clear();
    }
}

/// Copies a request without a body.
fn copy(head: &request::Parts) -> Request<OutgoingBody> {
    let mut request = Request::new(Either::Right(Full::default()));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    request
}
