//! Connections to one server and which of them a request goes on.
//!
//! An HTTP/2 connection takes a hundred streams; when all are full, another is opened. An HTTP/1.1 connection takes
//! one request at a time and waits in the idle list afterwards. Connections made with outdated certificates take
//! no new requests and close when their last stream ends.
//!
//! A lone request to a server on this machine takes an HTTP/1.1 connection ([`loopback`](super::loopback)).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri, header};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::body::Body;
use super::connector::{Connected, Connector, Opening, Protocol, Target};
use super::http2::{Http2, StreamLease};
use super::loopback::LoopbackLane;
use super::{BoxError, Lane, TransportError, tls_refusal};
use crate::error::chain;
use crate::tls::Identity;

/// Idle HTTP/1.1 connections kept for reuse, as in client-go; the oldest goes first.
const MAX_IDLE: usize = 25;

/// The connections of one client.
pub(crate) struct Pool {
    connector: Connector,
    base: Uri,
    connections: Arc<Mutex<Connections>>,
    loopback: Option<LoopbackLane>,
    /// Held while a shared connection is opened: those who wait for it may find room on it, or share what became of
    /// it. How the last attempt failed, if it did.
    opening: tokio::sync::Mutex<Option<TransportError>>,
    /// How many attempts to open a shared connection are over.
    attempts: AtomicUsize,
}

#[derive(Default)]
struct Connections {
    http2: Vec<Arc<Http2>>,
    idle: Vec<Single>,
    /// The server has chosen HTTP/1.1 where HTTP/2 was offered; requests then need not wait for each other.
    http1_only: bool,
}

/// An HTTP/1.1 connection with no request on it.
struct Single {
    sender: http1::SendRequest<Full<Bytes>>,
    /// What TLS said if it ended the connection.
    refusal: Arc<OnceLock<String>>,
    generation: u64,
    /// Given back when the connection goes.
    _place: Option<OwnedSemaphorePermit>,
}

/// How a request came by its connection.
#[derive(Clone, Debug)]
pub(crate) enum Obtained {
    /// It had to be opened.
    Opened(Opening),
    /// It was there, after this time.
    Reused(Duration),
}

/// A place for one request.
enum Lease {
    Shared(StreamLease),
    Single(Single),
}

/// Why a request got no answer from the connection it was given to.
pub(super) enum Failure {
    /// The server refused to speak TLS with us.
    Refused(String),
    /// The connection had closed before the request was written.
    Unsent(BoxError),
    Lost(BoxError),
}

/// An HTTP/1.1 connection that returns to the idle list when its response has been read to the end.
pub(super) struct SingleLease {
    single: Single,
    connections: Weak<Mutex<Connections>>,
}

impl Pool {
    /// A pool with no connections; `base` supplies scheme and host of every request. `loopback_http1` as in
    /// [`ClientOptions`](crate::ClientOptions).
    pub(crate) fn new(connector: Connector, base: Uri, loopback_http1: bool) -> Self {
        Self {
            loopback: LoopbackLane::to(&connector).filter(|_| loopback_http1),
            connector,
            base,
            connections: Arc::default(),
            opening: tokio::sync::Mutex::default(),
            attempts: AtomicUsize::new(0),
        }
    }

    /// Sends a request whose URI is a path and query, and returns the response as soon as its head is there.
    /// `obtained` tells how it came by its connection.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        lane: Lane,
        identity: Option<&Identity>,
        obtained: &mut Option<Obtained>,
    ) -> Result<Response<Body>, TransportError> {
        let (begun, mut opened) = (Instant::now(), None);
        let target = self.connector.target(identity);
        let lease = self.lease(lane, &target, &mut opened).await?;
        *obtained = Some(match opened {
            Some(opening) => Obtained::Opened(opening),
            None => Obtained::Reused(begun.elapsed()),
        });
        let sent = match lease {
            Lease::Shared(stream) => {
                let loopback = self.loopback.as_ref().filter(|_| lane == Lane::Short);
                let _sharing = loopback.map(LoopbackLane::share);
                self.send_shared(stream, request).await
            }
            Lease::Single(single) => self.send_single(single, request).await,
        };
        sent.map_err(|failure| match failure {
            Failure::Unsent(source) => TransportError::NotSent {
                source: source.into(),
            },
            Failure::Lost(source) => TransportError::Lost {
                source: source.into(),
            },
            Failure::Refused(refusal) => TransportError::Tls {
                address: self.connector.address(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, refusal).into(),
            },
        })
    }

    /// Connections open now, idle or not; those of HTTP/1.1 with a request on them are not counted.
    pub(crate) fn open_connections(&self) -> usize {
        let connections = self.lock();
        connections
            .http2
            .iter()
            .filter(|connection| !connection.is_closed())
            .count()
            + connections.idle.len()
    }

    async fn lease(
        &self,
        lane: Lane,
        target: &Target,
        opened: &mut Option<Opening>,
    ) -> Result<Lease, TransportError> {
        match lane {
            Lane::Multiplexed => self.lease_shared(target, opened).await,
            Lane::Short => match self.lease_loopback(target, opened).await? {
                Some(lease) => Ok(lease),
                None => self.lease_shared(target, opened).await,
            },
            Lane::Upgrade => match self.find_single(target.generation()) {
                Some(lease) => Ok(lease),
                None => Box::pin(self.open(Protocol::Http1, None, target, opened)).await,
            },
        }
    }

    /// The HTTP/1.1 connection of a lone request, if this is one and it is free.
    async fn lease_loopback(
        &self,
        target: &Target,
        opened: &mut Option<Opening>,
    ) -> Result<Option<Lease>, TransportError> {
        let Some(loopback) = self.loopback.as_ref().filter(|lane| lane.is_for_lone_request()) else {
            return Ok(None);
        };
        if let Some(lease) = self.find_single(target.generation()) {
            return Ok(Some(lease));
        }
        let Some(place) = loopback.place() else {
            return Ok(None);
        };
        match Box::pin(self.open(Protocol::Http1, Some(place), target, opened)).await {
            Err(error) if error.is_for_want_of_protocol() => {
                loopback.close();
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    async fn lease_shared(
        &self,
        target: &Target,
        opened: &mut Option<Opening>,
    ) -> Result<Lease, TransportError> {
        if let Some(lease) = self.find_shared(target.generation()) {
            return Ok(lease);
        }
        if self.lock().http1_only {
            return Box::pin(self.open(Protocol::Http2, None, target, opened)).await;
        }
        let attempts = self.attempts.load(Ordering::Relaxed);
        let mut failure = self.opening.lock().await;
        if let Some(lease) = self.find_shared(target.generation()) {
            return Ok(lease);
        }
        if self.lock().http1_only {
            drop(failure);
            return Box::pin(self.open(Protocol::Http2, None, target, opened)).await;
        }
        // Another request has just tried in vain: to a host that is silent for ten seconds, a hundred requests would
        // otherwise wait in line for a quarter of an hour.
        if self.attempts.load(Ordering::Relaxed) > attempts
            && let Some(failure) = &*failure
        {
            return Err(failure.clone());
        }
        // Boxed: opening takes kilobytes of state, which no other request should carry around.
        let lease = Box::pin(self.open(Protocol::Http2, None, target, opened)).await;
        *failure = lease.as_ref().err().cloned();
        self.attempts.fetch_add(1, Ordering::Relaxed);
        lease
    }

    /// A place on a connection that others use as well, or one that is as good.
    fn find_shared(&self, generation: u64) -> Option<Lease> {
        let mut connections = self.lock();
        connections.forget_useless(generation);
        if let Some(stream) = connections.http2.iter().find_map(Http2::lease) {
            return Some(Lease::Shared(stream));
        }
        match connections.http1_only {
            true => connections.idle.pop().map(Lease::Single),
            false => None,
        }
    }

    fn find_single(&self, generation: u64) -> Option<Lease> {
        let mut connections = self.lock();
        connections.forget_useless(generation);
        connections.idle.pop().map(Lease::Single)
    }

    async fn open(
        &self,
        best: Protocol,
        place: Option<OwnedSemaphorePermit>,
        target: &Target,
        opened: &mut Option<Opening>,
    ) -> Result<Lease, TransportError> {
        let Connected {
            io,
            protocol,
            opening,
        } = self.connector.connect(best, target).await?;
        *opened = Some(opening);
        let fail = |source: BoxError| TransportError::Http {
            address: self.connector.address(),
            source: source.into(),
        };
        let generation = target.generation();
        match protocol {
            Protocol::Http2 => {
                let begun = Http2::begin(io, generation).await;
                let connection = begun.map_err(|error| fail(error.into()))?;
                let stream = connection.lease_first();
                self.lock().http2.push(connection);
                Ok(Lease::Shared(stream))
            }
            Protocol::Http1 => {
                let begun = http1::handshake(TokioIo::new(io)).await;
                let (sender, connection) = begun.map_err(|error| fail(error.into()))?;
                let refusal = Arc::new(OnceLock::new());
                tokio::spawn(see_out(connection.with_upgrades(), refusal.clone()));
                if best == Protocol::Http2 {
                    self.lock().http1_only = true;
                }
                Ok(Lease::Single(Single {
                    sender,
                    refusal,
                    generation,
                    _place: place,
                }))
            }
        }
    }

    async fn send_shared(
        &self,
        stream: StreamLease,
        mut request: Request<Bytes>,
    ) -> Result<Response<Body>, Failure> {
        *request.uri_mut() = self.absolute(request.uri());
        let response = stream.send(request).await?;
        Ok(response.map(|incoming| Body::shared(incoming, stream)))
    }

    async fn send_single(
        &self,
        mut single: Single,
        mut request: Request<Bytes>,
    ) -> Result<Response<Body>, Failure> {
        let host = self.host();
        request.headers_mut().entry(header::HOST).or_insert(host);
        *request.uri_mut() = origin_form(request.uri());
        // The last answer has been read, but the connection's own task may not have noticed yet. Should the
        // connection be gone, the attempt below says so and gives the request back.
        let _ = single.sender.ready().await;
        let mut error = match single.sender.try_send_request(request.map(Full::new)).await {
            Ok(response) => {
                let lease = SingleLease {
                    single,
                    connections: Arc::downgrade(&self.connections),
                };
                return Ok(response.map(|incoming| Body::single(incoming, lease)));
            }
            Err(error) => error,
        };
        let refusal = single.refusal.get().cloned();
        if let Some(refusal) = refusal.or_else(|| tls_refusal(error.error())) {
            return Err(Failure::Refused(refusal));
        }
        Err(match error.take_message() {
            Some(_) => Failure::Unsent(error.into_error().into()),
            None => Failure::Lost(error.into_error().into()),
        })
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

impl Connections {
    /// Lets go of connections that have closed, or were made with outdated certificates.
    fn forget_useless(&mut self, generation: u64) {
        self.http2
            .retain(|connection| connection.generation >= generation && !connection.is_closed());
        self.idle
            .retain(|single| single.generation >= generation && !single.sender.is_closed());
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

/// Sees a connection to its end. Its requests learn of errors themselves, but for this one.
async fn see_out(connection: impl Future<Output = hyper::Result<()>>, refusal: Arc<OnceLock<String>>) {
    if let Err(error) = connection.await {
        tracing::debug!(error = %chain(&error), "connection ended");
        if let Some(error) = tls_refusal(&error) {
            let _ = refusal.set(error);
        }
    }
}
