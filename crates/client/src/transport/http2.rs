//! One HTTP/2 connection: many concurrent requests, and a task that moves their frames.
//!
//! Uses the h2 crate directly. Each request awaits its own stream, so an answer wakes only the connection's task and
//! the requester.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::time::{sleep, timeout};
use watchkeeper_meta::error_chain;

use super::connector::Io;
use super::pool::Failure;
use super::read_turns::ReadTurns;
use super::{BoxError, tls_refusal};

/// The number of streams per connection, as kube-apiserver allows by default. A lower limit of the server is
/// respected.
const MAX_STREAMS: usize = 100;

/// The flow-control window of a stream: large enough for a fast link.
const STREAM_WINDOW: u32 = 2 << 20;

/// The sum of all stream windows, so that unread streams cannot block the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MAX_STREAMS as u32;

/// Large frames, because a list has megabytes and each frame costs a header and a wake-up.
const FRAME_SIZE: u32 = 256 << 10;

/// The limit on response headers, far above real ones.
const MAX_HEADERS: u32 = 64 << 10;

/// The interval of HTTP/2 pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// The time limit of a ping's answer. A dead peer is detected within 45 seconds.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Connection-specific headers, which HTTP/2 forbids; h2 rejects requests that have them.
const CONNECTION_HEADERS: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// A connection, shared by its requests.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// The server's limit on concurrent streams, as last announced.
    allowed: Arc<AtomicUsize>,
    ended: Arc<OnceLock<Ended>>,
    /// The generation of the TLS configuration it was opened with.
    pub(super) generation: u64,
}

/// The reason a connection takes no more requests.
#[derive(Clone, Debug)]
enum Ended {
    /// TLS ended it. With TLS 1.3 the server verifies the client certificate after the handshake, so requests only
    /// see the connection close.
    Refused(String),
    /// The server did not answer a ping.
    Silent,
    /// Any other end. Each request receives its own error.
    Closed,
}

/// A stream slot of a connection; released when the response's body is dropped.
pub(super) struct StreamLease {
    connection: Arc<Http2>,
}

impl Http2 {
    /// Starts HTTP/2 on a byte stream. The connection lives until its last user or the peer closes it.
    pub(super) async fn begin(io: Box<dyn Io>, generation: u64) -> Result<Arc<Self>, h2::Error> {
        let (sender, mut connection) = settings().handshake(ReadTurns::new(io)).await?;
        let pings = connection.ping_pong();
        let (allowed, ended) = (Arc::new(AtomicUsize::new(MAX_STREAMS)), Arc::new(OnceLock::new()));
        let frames = Frames {
            connection,
            allowed: allowed.clone(),
            ended: ended.clone(),
        };
        tokio::spawn(frames.run(pings));
        Ok(Arc::new(Self {
            sender,
            streams: AtomicUsize::new(0),
            allowed,
            ended,
            generation,
        }))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.ended.get().is_some()
    }

    /// A stream slot, if one is free. Callers hold the pool's lock, so two cannot take the last one.
    pub(super) fn lease(self: &Arc<Self>) -> Option<StreamLease> {
        let room = MAX_STREAMS.min(self.allowed.load(Ordering::Relaxed));
        (self.streams.load(Ordering::Relaxed) < room).then(|| self.lease_first())
    }

    /// The first stream on a new connection; granted even if the server announces zero concurrent streams.
    pub(super) fn lease_first(self: &Arc<Self>) -> StreamLease {
        self.streams.fetch_add(1, Ordering::Relaxed);
        StreamLease {
            connection: self.clone(),
        }
    }
}

impl StreamLease {
    /// Sends a request with an absolute URI; returns the head of the response.
    ///
    /// The request's body is in memory. It is queued as a whole and sent as the flow-control window permits.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<RecvStream>, Failure> {
        let (mut head, body) = request.into_parts();
        for name in &CONNECTION_HEADERS {
            head.headers.remove(name);
        }
        if !body.is_empty() {
            set_length(&mut head.headers, body.len());
        }
        index_credential(&mut head.headers);
        let head = Request::from_parts(head, ());
        let response = self.enqueue(head, body)?;
        response.await.map_err(|error| self.lost(error))
    }

    /// Queues the request for the connection's task.
    fn enqueue(&self, head: Request<()>, body: Bytes) -> Result<ResponseFuture, Failure> {
        let sent = self.connection.sender.clone().send_request(head, body.is_empty());
        let (response, mut stream) = sent.map_err(|error| self.unsent(error))?;
        if !body.is_empty() {
            stream.send_data(body, true).map_err(|error| self.lost(error))?;
        }
        Ok(response)
    }

    /// The server sent GOAWAY: existing streams continue, new ones are refused.
    fn unsent(&self, error: h2::Error) -> Failure {
        let _ = self.connection.ended.set(ended_by(&error));
        self.refused(&error)
            .unwrap_or_else(|| Failure::Unsent(error.into()))
    }

    fn lost(&self, error: h2::Error) -> Failure {
        self.refused(&error)
            .unwrap_or_else(|| Failure::Lost(self.cause(error)))
    }

    fn refused(&self, error: &h2::Error) -> Option<Failure> {
        let refusal = match self.connection.ended.get() {
            Some(Ended::Refused(refusal)) => Some(refusal.clone()),
            _ => tls_refusal(error),
        };
        refusal.map(Failure::Refused)
    }

    /// The error of a broken stream, with the reason its connection ended, which h2 does not report.
    pub(super) fn cause(&self, error: h2::Error) -> BoxError {
        match self.connection.ended.get() {
            Some(Ended::Silent) => {
                let silent = PING_INTERVAL + PING_TIMEOUT;
                let text = format!("the server gave no sign of life for {silent:?}");
                io::Error::new(io::ErrorKind::TimedOut, text).into()
            }
            _ => error.into(),
        }
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.connection.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

fn set_length(headers: &mut HeaderMap, length: usize) {
    headers
        .entry(header::CONTENT_LENGTH)
        .or_insert_with(|| HeaderValue::from(length));
}

/// Allows HPACK to index the `Authorization` header, as Go does, so that a token of a kilobyte is sent once per
/// connection. A sensitive header value is never indexed, because an attacker who adds headers to the same connection
/// could guess it; here only this client adds headers.
fn index_credential(headers: &mut HeaderMap) {
    if let Some(credential) = headers.get_mut(header::AUTHORIZATION) {
        credential.set_sensitive(false);
    }
}

fn settings() -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_max_send_streams(MAX_STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_SIZE)
        .max_header_list_size(MAX_HEADERS)
        .enable_push(false);
    builder
}

/// Moves the frames of a connection.
struct Frames {
    connection: Connection<ReadTurns<Box<dyn Io>>, Bytes>,
    allowed: Arc<AtomicUsize>,
    ended: Arc<OnceLock<Ended>>,
}

impl Frames {
    /// Runs until the connection ends, and records the reason before its streams fail.
    async fn run(mut self, pings: Option<PingPong>) {
        let frames = poll_fn(|context| {
            let progress = self.connection.poll_unpin(context);
            let allowed = self.connection.max_concurrent_send_streams();
            self.allowed.store(allowed, Ordering::Relaxed);
            progress
        });
        let end = tokio::select! {
            result = frames => match result {
                Ok(()) => Ended::Closed,
                Err(error) => ended_by(&error),
            },
            () = ping_until_silent(pings) => Ended::Silent,
        };
        let _ = self.ended.set(end);
    }
}

fn ended_by(error: &h2::Error) -> Ended {
    tracing::debug!(error = %error_chain(error), "connection ended");
    tls_refusal(error).map_or(Ended::Closed, Ended::Refused)
}

/// Sends pings; returns when one is not answered.
async fn ping_until_silent(pings: Option<PingPong>) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        sleep(PING_INTERVAL).await;
        match timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_pong)) => {}
            // The connection ended; its task has the error.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
