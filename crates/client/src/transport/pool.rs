//! Connections to one server and which of them a request goes on.
//!
//! An HTTP/2 connection takes a hundred streams; when all are full, another is opened. An HTTP/1.1 connection takes
//! one request at a time and waits in the idle list afterwards. Connections made with outdated certificates take
//! no new requests and close when their last stream ends.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::Full;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::body::Body;
use super::connector::{Connected, Connector, Opening, Protocol, Target};
use super::{Lane, TransportError, tls_refusal};
use crate::error::chain;
use crate::tls::Identity;

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

/// A silent server is asked for a sign of life after this time …
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// … and given up when none comes: a dead peer is noticed within 45 seconds.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Idle HTTP/1.1 connections kept for reuse, as in client-go; the oldest goes first.
const MAX_IDLE: usize = 25;

/// How often a request may find its connection closed before it was written.
const MAX_UNSENT: usize = 3;

/// The connections of one client.
pub(crate) struct Pool {
    connector: Connector,
    base: Uri,
    connections: Arc<Mutex<Connections>>,
    /// Held while a shared connection is opened: those who wait for it may find room on it.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Connections {
    http2: Vec<Shared>,
    idle: Vec<Single>,
    /// The server has chosen HTTP/1.1 where HTTP/2 was offered; requests then need not wait for each other.
    http1_only: bool,
}

/// An HTTP/2 connection.
#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
    streams: Arc<AtomicUsize>,
    /// How many streams the server allows, as far as it has said.
    allowed: Arc<AtomicUsize>,
    refusal: Refusal,
    generation: u64,
}

/// Why TLS ended a connection, if it did: with TLS 1.3 a server looks at our certificate after the handshake, and
/// whoever waits on the connection only sees it close.
type Refusal = Arc<OnceLock<String>>;

/// An HTTP/1.1 connection with no request on it.
struct Single {
    sender: http1::SendRequest<Full<Bytes>>,
    refusal: Refusal,
    generation: u64,
}

/// A place for one request.
enum Lease {
    Shared(Shared, StreamLease),
    Single(Single),
}

/// One stream's share of a connection; given back when the response's body is dropped.
pub(super) struct StreamLease(Arc<AtomicUsize>);

/// An HTTP/1.1 connection that returns to the idle list when its response has been read to the end.
pub(super) struct SingleLease {
    single: Single,
    connections: Weak<Mutex<Connections>>,
}

impl Pool {
    /// A pool with no connections; `base` supplies scheme and host of every request.
    pub(crate) fn new(connector: Connector, base: Uri) -> Self {
        Self {
            connector,
            base,
            connections: Arc::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// Sends a request whose URI is a path and query, and returns the response as soon as its head is there.
    /// `opened` tells how a connection was opened, if one had to be.
    ///
    /// A connection may close between being chosen and being written to; the request is then untouched and goes
    /// on another one, whatever its verb.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        lane: Lane,
        identity: Option<&Identity>,
        opened: &mut Option<Opening>,
    ) -> Result<Response<Body>, TransportError> {
        let mut unsent = 0;
        loop {
            let lease = self.lease(lane, &self.connector.target(identity), opened).await?;
            let refusal = lease.refusal();
            let mut error = match self.send_on(lease, request).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if let Some(refusal) = refusal.get().cloned().or_else(|| tls_refusal(error.error())) {
                return Err(TransportError::Tls {
                    address: self.connector.address(),
                    source: std::io::Error::new(std::io::ErrorKind::InvalidData, refusal),
                });
            }
            match error.take_message() {
                Some(back) if unsent < MAX_UNSENT => {
                    unsent += 1;
                    request = back;
                }
                Some(_) => {
                    return Err(TransportError::NotSent {
                        source: error.into_error(),
                    });
                }
                None => {
                    return Err(TransportError::Lost {
                        source: error.into_error(),
                    });
                }
            }
        }
    }

    /// Connections open now, idle or not; those of HTTP/1.1 with a request on them are not counted.
    pub(crate) fn open_connections(&self) -> usize {
        let connections = self.lock();
        connections
            .http2
            .iter()
            .filter(|shared| !shared.sender.is_closed())
            .count()
            + connections.idle.len()
    }

    async fn lease(
        &self,
        lane: Lane,
        target: &Target,
        opened: &mut Option<Opening>,
    ) -> Result<Lease, TransportError> {
        if let Some(lease) = self.find(lane, target.generation()) {
            return Ok(lease);
        }
        if lane == Lane::Upgrade || self.lock().http1_only {
            return self.open(lane, target, opened).await;
        }
        let _opening = self.opening.lock().await;
        match self.find(lane, target.generation()) {
            Some(lease) => Ok(lease),
            None => self.open(lane, target, opened).await,
        }
    }

    /// A connection with room.
    fn find(&self, lane: Lane, generation: u64) -> Option<Lease> {
        let mut connections = self.lock();
        connections
            .http2
            .retain(|shared| shared.generation >= generation && !shared.sender.is_closed());
        connections
            .idle
            .retain(|single| single.generation >= generation && !single.sender.is_closed());
        if lane == Lane::Multiplexed
            && let Some(lease) = connections.http2.iter().find_map(Shared::lease)
        {
            return Some(lease);
        }
        if lane == Lane::Upgrade || connections.http1_only {
            return connections.idle.pop().map(Lease::Single);
        }
        None
    }

    async fn open(
        &self,
        lane: Lane,
        target: &Target,
        opened: &mut Option<Opening>,
    ) -> Result<Lease, TransportError> {
        let Connected {
            io,
            protocol,
            opening,
        } = self.connector.connect(lane, target).await?;
        *opened = Some(opening);
        let io = TokioIo::new(io);
        let fail = |source| TransportError::Http {
            address: self.connector.address(),
            source,
        };
        let generation = target.generation();
        let refusal = Refusal::default();
        match protocol {
            Protocol::Http2 => {
                let (sender, mut connection) = http2_settings().handshake(io).await.map_err(fail)?;
                let allowed = Arc::new(AtomicUsize::new(MAX_STREAMS));
                let shared = Shared {
                    sender,
                    streams: Arc::default(),
                    allowed: allowed.clone(),
                    refusal: refusal.clone(),
                    generation,
                };
                // The task ends when the last sender and the last stream are gone, or the peer is.
                let driven = std::future::poll_fn(move |cx| {
                    let progress = Pin::new(&mut connection).poll(cx);
                    allowed.store(connection.current_max_send_streams(), Ordering::Relaxed);
                    progress
                });
                tokio::spawn(drive(driven, refusal));
                let lease = shared.lease();
                self.lock().http2.push(shared.clone());
                Ok(lease.unwrap_or_else(|| Lease::Shared(shared.clone(), StreamLease::new(&shared.streams))))
            }
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await.map_err(fail)?;
                tokio::spawn(drive(connection.with_upgrades(), refusal.clone()));
                if lane == Lane::Multiplexed {
                    self.lock().http1_only = true;
                }
                Ok(Lease::Single(Single {
                    sender,
                    refusal,
                    generation,
                }))
            }
        }
    }

    async fn send_on(
        &self,
        lease: Lease,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, TrySendError<Request<Full<Bytes>>>> {
        match lease {
            Lease::Shared(mut shared, stream) => {
                *request.uri_mut() = self.absolute(request.uri());
                let response = shared.sender.try_send_request(request).await?;
                Ok(response.map(|incoming| Body::shared(incoming, stream)))
            }
            Lease::Single(mut single) => {
                let host = self.host();
                request.headers_mut().entry(header::HOST).or_insert(host);
                *request.uri_mut() = origin_form(request.uri());
                // The last answer has been read, but the connection's own task may not have noticed yet. Should the
                // connection be gone, the attempt below says so and gives the request back.
                let _ = single.sender.ready().await;
                let response = single.sender.try_send_request(request).await?;
                let lease = SingleLease {
                    single,
                    connections: Arc::downgrade(&self.connections),
                };
                Ok(response.map(|incoming| Body::single(incoming, lease)))
            }
        }
    }

    /// HTTP/2 sends scheme and authority with each request.
    fn absolute(&self, uri: &Uri) -> Uri {
        let mut parts = uri.clone().into_parts();
        parts.scheme = self.base.scheme().cloned();
        parts.authority = self.base.authority().cloned();
        Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
    }

    fn host(&self) -> http::HeaderValue {
        let authority = self.base.authority().map(|authority| authority.as_str());
        authority
            .and_then(|text| http::HeaderValue::from_str(text).ok())
            .unwrap_or_else(|| http::HeaderValue::from_static("localhost"))
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Lease {
    fn refusal(&self) -> Refusal {
        match self {
            Self::Shared(shared, _) => shared.refusal.clone(),
            Self::Single(single) => single.refusal.clone(),
        }
    }
}

impl Shared {
    /// A stream on this connection, if it has room.
    fn lease(&self) -> Option<Lease> {
        let room = MAX_STREAMS.min(self.allowed.load(Ordering::Relaxed));
        (self.streams.load(Ordering::Relaxed) < room)
            .then(|| Lease::Shared(self.clone(), StreamLease::new(&self.streams)))
    }
}

impl StreamLease {
    /// Callers hold the pool's lock, so that two cannot take the last stream.
    fn new(streams: &Arc<AtomicUsize>) -> Self {
        streams.fetch_add(1, Ordering::Relaxed);
        Self(streams.clone())
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SingleLease {
    /// The response has been read to the end: the connection can take another request.
    pub(super) fn give_back(self) {
        let Some(connections) = self.connections.upgrade() else {
            return;
        };
        let mut connections = connections
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if connections.idle.len() == MAX_IDLE {
            connections.idle.remove(0);
        }
        connections.idle.push(self.single);
    }
}

/// HTTP/1.1 sends the path alone; the host has a header of its own.
fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    }
}

fn http2_settings() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_SIZE)
        .max_header_list_size(MAX_HEADERS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true);
    builder
}

/// Drives a connection to its end. Its requests learn of errors themselves, but for this one.
async fn drive(connection: impl Future<Output = hyper::Result<()>>, refusal: Refusal) {
    if let Err(error) = connection.await {
        tracing::debug!(error = %chain(&error), "connection ended");
        if let Some(error) = tls_refusal(&error) {
            let _ = refusal.set(error);
        }
    }
}
