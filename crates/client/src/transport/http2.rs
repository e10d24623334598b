//! One HTTP/2 connection: many requests at once, and a task that moves the frames of all of them.
//!
//! The h2 crate is used without a layer between: whoever sends a request waits for its own stream, so that an answer
//! wakes the connection's task and the one who asked, and nobody else.

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

use super::connector::Io;
use super::pool::Failure;
use super::read_turns::ReadTurns;
use super::{BoxError, tls_refusal};
use crate::error::chain;

/// Streams per connection: kube-apiserver allows as many. A server that allows fewer is asked for fewer.
const MAX_STREAMS: usize = 100;

/// What one stream may receive before it is read: enough to keep a fast link busy.
const STREAM_WINDOW: u32 = 2 << 20;

/// All streams' windows together, so that no set of unread streams can stop the others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MAX_STREAMS as u32;

/// Large frames: a list is megabytes, and each frame costs a header and a wake-up.
const FRAME_SIZE: u32 = 256 << 10;

/// Response headers of all kinds stay far below this.
const MAX_HEADERS: u32 = 64 << 10;

/// A server is asked for a sign of life this often …
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// … and given up when none comes: a dead peer is noticed within 45 seconds.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Headers about a connection have no place on a shared one; h2 refuses requests that bring them.
const CONNECTION_HEADERS: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// A connection as its requests share it.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// How many the server allows, as far as it has said.
    allowed: Arc<AtomicUsize>,
    ended: Arc<OnceLock<Ended>>,
    /// Of the TLS configuration it was made with.
    pub(super) generation: u64,
}

/// Why a connection takes no more requests.
#[derive(Clone, Debug)]
enum Ended {
    /// TLS ended it: with TLS 1.3 a server looks at our certificate after the handshake, and whoever waits on the
    /// connection only sees it close.
    Refused(String),
    /// The server gave no sign of life.
    Silent,
    /// In any other way, good or bad; each request learns of errors by itself.
    Closed,
}

/// One stream's share of a connection; given back when the response's body is dropped.
pub(super) struct StreamLease {
    connection: Arc<Http2>,
}

impl Http2 {
    /// Begins HTTP/2 on a byte stream. The connection lives until the last of its users is gone, or the peer is.
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

    /// A stream on this connection, if it has room. Callers hold the pool's lock, so that two cannot take the last.
    pub(super) fn lease(self: &Arc<Self>) -> Option<StreamLease> {
        let room = MAX_STREAMS.min(self.allowed.load(Ordering::Relaxed));
        (self.streams.load(Ordering::Relaxed) < room).then(|| self.lease_first())
    }

    /// The first stream on a new connection, even if the server allows none: it may allow one later.
    pub(super) fn lease_first(self: &Arc<Self>) -> StreamLease {
        self.streams.fetch_add(1, Ordering::Relaxed);
        StreamLease {
            connection: self.clone(),
        }
    }
}

impl StreamLease {
    /// Sends a request whose URI is absolute; returns the head of the answer.
    ///
    /// The body is in memory already, so it is handed over as a whole and leaves as the server makes room.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<RecvStream>, Failure> {
        let (mut head, body) = request.into_parts();
        for name in &CONNECTION_HEADERS {
            head.headers.remove(name);
        }
        if !body.is_empty() {
            set_length(&mut head.headers, body.len());
        }
        let_credential_be_remembered(&mut head.headers);
        let head = Request::from_parts(head, ());
        let response = self.enqueue(head, body)?;
        response.await.map_err(|error| self.lost(error))
    }

    /// Leaves the request to the connection's task to write.
    fn enqueue(&self, head: Request<()>, body: Bytes) -> Result<ResponseFuture, Failure> {
        let sent = self.connection.sender.clone().send_request(head, body.is_empty());
        let (response, mut stream) = sent.map_err(|error| self.unsent(error))?;
        if !body.is_empty() {
            stream.send_data(body, true).map_err(|error| self.lost(error))?;
        }
        Ok(response)
    }

    /// The server has said goodbye: the streams it has live on, but there will be no others.
    fn unsent(&self, error: h2::Error) -> Failure {
        let _ = self.connection.ended.set(how(&error));
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

    /// What broke a stream of this connection: h2 only says that it broke.
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

/// Lets both ends remember the credential for the requests to come, as Go does: a token may be a kilobyte, and is the
/// same each time. Otherwise it would be sent in full with each, because a mark that it must not print also says so.
/// What that guards against is guessing a secret by adding headers to its connection, and nobody else adds any here.
fn let_credential_be_remembered(headers: &mut HeaderMap) {
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
    /// Runs until the connection ends, and notes how it did before its streams break.
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
                Err(error) => how(&error),
            },
            () = silence(pings) => Ended::Silent,
        };
        let _ = self.ended.set(end);
    }
}

fn how(error: &h2::Error) -> Ended {
    tracing::debug!(error = %chain(error), "connection ended");
    tls_refusal(error).map_or(Ended::Closed, Ended::Refused)
}

/// Asks for signs of life; returns when there is none.
async fn silence(pings: Option<PingPong>) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        sleep(PING_INTERVAL).await;
        match timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await {
            Ok(Ok(_pong)) => {}
            // The connection has ended by itself and says why.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
