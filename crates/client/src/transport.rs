//! The transport: takes a request, returns a response whose body is still arriving.
//!
//! ```text
//! send ▶ pool: a connection with room ▶ connector: dial ▶ proxy ▶ TLS ▶ HTTP/2 (or HTTP/1.1) ▶ body ▶ gunzip
//! ```
//! An HTTP/2 connection carries up to a hundred streams; another connection is opened when all are in use. HTTP/1.1
//! connections serve upgrades, servers without HTTP/2, and single requests to a server on this machine. The transport
//! knows nothing of Kubernetes. It never retries a request that the server may have processed, and every wait has a
//! named limit.

mod body;
mod connector;
mod dial;
mod gzip;
mod http2;
mod loopback;
mod pool;
mod proxy;
mod read_turns;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

pub use body::{Body, BodyError};
pub(crate) use connector::{Connector, Opening};
pub use connector::{InProcess, Io};
pub(crate) use pool::{Obtained, Pool};

/// Any error of a lower layer.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// An error shared by several requests.
pub(crate) type SharedError = Arc<dyn StdError + Send + Sync>;

/// The time limit for name resolution, TCP and the proxy together.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit of the TLS handshake, as in Go.
pub(crate) const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// The kind of connection a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// HTTP/2 if the server supports it.
    Multiplexed,
    /// Like [`Lane::Multiplexed`], but a single request to a server on this machine uses HTTP/1.1 ([`loopback`]).
    Short,
    /// HTTP/1.1 only: the connection is upgraded to another protocol.
    Upgrade,
}

/// A request got no response. Each variant names the step that failed. Requests that wait for the same connection
/// share its error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The host's name has no address.
    #[error("cannot resolve {host}")]
    Resolve {
        /// The host.
        host: String,
        /// The error.
        source: Arc<std::io::Error>,
    },
    /// No address of the host accepts connections.
    #[error("cannot connect to {address}")]
    Dial {
        /// Host and port.
        address: String,
        /// The error of the last address.
        source: Arc<std::io::Error>,
    },
    /// The proxy did not open a connection to the server.
    #[error("proxy {proxy} does not connect to {address}: {reason}")]
    Proxy {
        /// The proxy's host and port.
        proxy: String,
        /// The server's host and port.
        address: String,
        /// The proxy's answer.
        reason: String,
    },
    /// The server's certificate is not trusted, it rejected the client's, or it does not speak TLS.
    #[error("TLS handshake with {address} failed")]
    Tls {
        /// Host and port.
        address: String,
        /// The error.
        source: Arc<std::io::Error>,
    },
    /// A step exceeded its time limit.
    #[error("{step} with {address} took longer than {limit:?}")]
    Timeout {
        /// `connect` or `TLS handshake`.
        step: &'static str,
        /// Host and port.
        address: String,
        /// The limit.
        limit: Duration,
    },
    /// The HTTP handshake failed.
    #[error("cannot begin HTTP with {address}")]
    Http {
        /// Host and port.
        address: String,
        /// The error.
        source: SharedError,
    },
    /// Connections closed repeatedly before the request was written.
    #[error("the connection closed before the request was sent")]
    NotSent {
        /// The error.
        source: SharedError,
    },
    /// The connection was lost after the request was sent; the server may have processed it.
    #[error("the connection was lost before the answer came")]
    Lost {
        /// The error.
        source: SharedError,
    },
}

impl TransportError {
    /// True if the server did not process the request, so that any verb may be retried.
    pub fn is_unprocessed(&self) -> bool {
        match self {
            Self::Lost { source } => was_refused(&**source),
            Self::Resolve { .. } | Self::Dial { .. } | Self::Proxy { .. } | Self::Tls { .. } => true,
            Self::Timeout { .. } | Self::Http { .. } | Self::NotSent { .. } => true,
        }
    }

    /// True if the server speaks TLS but accepts none of the offered ALPN protocols.
    fn is_protocol_mismatch(&self) -> bool {
        let Self::Tls { source, .. } = self else {
            return false;
        };
        let refusal = source.get_ref().and_then(|error| error.downcast_ref());
        let wanted = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
        refusal == Some(&wanted)
    }

    /// True if nothing listens at the address.
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::Dial { source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused)
    }
}

/// True for streams that the server did not process: refused ones, and those above the last stream of a GOAWAY.
fn was_refused(error: &(dyn StdError + 'static)) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<h2::Error>())
        .any(|error| {
            let graceful =
                error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
            graceful || error.reason() == Some(h2::Reason::REFUSED_STREAM)
        })
}

/// The TLS error that ended the connection, if there was one. Only TLS reports `InvalidData` on a socket; the h2
/// crate keeps the kind and the text of an IO error but not the error itself.
fn tls_refusal(error: &(dyn StdError + 'static)) -> Option<String> {
    let io = causes(error).find_map(|cause| match cause.downcast_ref::<h2::Error>() {
        Some(error) => error.get_io(),
        None => cause.downcast_ref::<std::io::Error>(),
    })?;
    (io.kind() == std::io::ErrorKind::InvalidData).then(|| io.to_string())
}

/// An error and its sources.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
