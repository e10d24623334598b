//! The connection pool of one server: chooses or opens the connection of each request.
//!
//! An HTTP/2 connection takes a hundred streams; when all are in use, another connection is opened. An HTTP/1.1
//! connection takes one request at a time and then returns to the idle list. Connections opened with outdated
//! certificates take no new requests and close after their last stream.
//!
//! A single request to a server on this machine takes an HTTP/1.1 connection ([`loopback`](super::loopback)).

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
use watchkeeper_meta::error_chain;

use crate::tls::Identity;

/// The limit on idle HTTP/1.1 connections, as in client-go; the oldest is closed first.
const MAX_IDLE: usize = 25;

/// The connections of one client.
pub(crate) struct Pool {
    connector: Connector,
    base: Uri,
    connections: Arc<Mutex<Connections>>,
    loopback: Option<LoopbackLane>,
    /// Held while a shared connection is opened. Waiters then use that connection, or share the error of the attempt,
    /// which is stored here.
    opening: tokio::sync::Mutex<Option<TransportError>>,
    /// The number of finished attempts to open a shared connection.
    attempts: AtomicUsize,
}

#[derive(Default)]
struct Connections {
    http2: Vec<Arc<Http2>>,
    idle: Vec<Single>,
    /// The server chose HTTP/1.1 although HTTP/2 was offered; requests then open connections concurrently.
    http1_only: bool,
}

/// An idle HTTP/1.1 connection.
struct Single {
    sender: http1::SendRequest<Full<Bytes>>,
    /// The TLS error, if one ended the connection.
    refusal: Arc<OnceLock<String>>,
    generation: u64,
    /// The permit of the loopback lane; released when the connection closes.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The origin of a request's connection.
#[derive(Clone, Debug)]
pub(crate) enum Obtained {
    /// Newly opened.
    Opened(Opening),
    /// An existing one, obtained after this time.
    Reused(Duration),
}

/// A slot for one request on a connection.
enum Lease {
    Shared(StreamLease),
    Single(Single),
}

/// A request got no answer on its connection.
pub(super) enum Failure {
    /// The server ended the connection with a TLS error.
    Refused(String),
    /// The connection closed before the request was written.
    Unsent(BoxError),
    Lost(BoxError),
}

/// An HTTP/1.1 connection that returns to the idle list when its response has been read to the end.
pub(super) struct SingleLease {
    single: Single,
    connections: Weak<Mutex<Connections>>,
}

impl Pool {
    /// An empty pool. `base` is the scheme and host of every request; `loopback_http1` is the field of
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

    /// Sends a request whose URI is a path and query; returns when the head of the response has arrived. `obtained`
    /// receives the origin of the connection.
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

    /// The number of open connections, without HTTP/1.1 connections that have a request on them.
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

    /// The HTTP/1.1 connection for a single request, if this is one and the connection is free.
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
        let Some(permit) = loopback.permit() else {
            return Ok(None);
        };
        match Box::pin(self.open(Protocol::Http1, Some(permit), target, opened)).await {
            Err(error) if error.is_protocol_mismatch() => {
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
        // Another request just failed to connect; its error applies to this one too. Otherwise a hundred requests to
        // a silent host would wait ten seconds each, one after the other.
        if self.attempts.load(Ordering::Relaxed) > attempts
            && let Some(failure) = &*failure
        {
            return Err(failure.clone());
        }
        // Boxed: opening needs kilobytes of state, which other requests should not carry.
        let lease = Box::pin(self.open(Protocol::Http2, None, target, opened)).await;
        *failure = lease.as_ref().err().cloned();
        self.attempts.fetch_add(1, Ordering::Relaxed);
        lease
    }

    /// A slot on a shared connection, or on an idle HTTP/1.1 connection if the server has no HTTP/2.
    fn find_shared(&self, generation: u64) -> Option<Lease> {
        let mut connections = self.lock();
        connections.remove_unusable(generation);
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
        connections.remove_unusable(generation);
        connections.idle.pop().map(Lease::Single)
    }

    async fn open(
        &self,
        best: Protocol,
        permit: Option<OwnedSemaphorePermit>,
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
                tokio::spawn(drive(connection.with_upgrades(), refusal.clone()));
                if best == Protocol::Http2 {
                    self.lock().http1_only = true;
                }
                Ok(Lease::Single(Single {
                    sender,
                    refusal,
                    generation,
                    _permit: permit,
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
        // The last response was read, but the connection's task may not have noticed yet. If the connection is gone,
        // the attempt below fails and returns the request.
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
    /// Drops connections that are closed, or were opened with outdated certificates.
    fn remove_unusable(&mut self, generation: u64) {
        self.http2
            .retain(|connection| connection.generation >= generation && !connection.is_closed());
        self.idle
            .retain(|single| single.generation >= generation && !single.sender.is_closed());
    }
}

impl SingleLease {
    /// The response was read to the end: the connection can take another request.
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

/// HTTP/1.1 sends only the path; the host is a header.
fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    }
}

/// Drives a connection to its end. Requests receive their own errors, except TLS errors, which are stored in
/// `refusal`.
async fn drive(connection: impl Future<Output = hyper::Result<()>>, refusal: Arc<OnceLock<String>>) {
    if let Err(error) = connection.await {
        tracing::debug!(error = %error_chain(&error), "connection ended");
        if let Some(error) = tls_refusal(&error) {
            let _ = refusal.set(error);
        }
    }
}
