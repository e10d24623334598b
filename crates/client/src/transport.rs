//! Bytes to and from one server: a request goes in, a response whose body arrives as it is read comes out.
//!
//! ```text
//! send ▶ pool: a connection with room ▶ connector: dial ▶ proxy ▶ TLS ▶ HTTP/2 (or HTTP/1.1) ▶ body ▶ gunzip
//! ```
//! HTTP/2 carries up to a hundred streams on one connection; more connections are opened when those run out. A
//! lane of HTTP/1.1 connections serves upgrades, servers without HTTP/2, and lone requests to a server on this machine.
//! Nothing here knows Kubernetes, retries a request that a server may have seen, or waits longer than its named limits.

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

/// Whatever went wrong below.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The same for several who were told.
pub(crate) type SharedError = Arc<dyn StdError + Send + Sync>;

/// Time for name look-up, TCP and the proxy, together.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the TLS handshake, as in Go.
pub(crate) const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// Which kind of connection a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// HTTP/2 where the server has it.
    Multiplexed,
    /// As [`Lane::Multiplexed`], but a lone request to a server on this machine takes HTTP/1.1 ([`loopback`]).
    Short,
    /// HTTP/1.1 only: the connection will leave HTTP after the request.
    Upgrade,
}

/// Why a request got no response, by the step that failed. All requests that wait for one connection share what became
/// of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The host's name has no address.
    #[error("cannot resolve {host}")]
    Resolve {
        /// The host.
        host: String,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// No address of the host accepts connections.
    #[error("cannot connect to {address}")]
    Dial {
        /// Host and port.
        address: String,
        /// Why the last address failed.
        source: Arc<std::io::Error>,
    },
    /// The proxy would not connect us.
    #[error("proxy {proxy} does not connect to {address}: {reason}")]
    Proxy {
        /// The proxy's host and port.
        proxy: String,
        /// Host and port behind it.
        address: String,
        /// What it said.
        reason: String,
    },
    /// The server cannot be trusted, does not trust us, or does not speak TLS.
    #[error("TLS handshake with {address} failed")]
    Tls {
        /// Host and port.
        address: String,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// A step took longer than it may.
    #[error("{step} with {address} took longer than {limit:?}")]
    Timeout {
        /// `connect` or `TLS handshake`.
        step: &'static str,
        /// Host and port.
        address: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The connection cannot speak HTTP.
    #[error("cannot begin HTTP with {address}")]
    Http {
        /// Host and port.
        address: String,
        /// Why.
        source: SharedError,
    },
    /// Connections kept closing before the request could be written on one.
    #[error("the connection closed before the request was sent")]
    NotSent {
        /// Why.
        source: SharedError,
    },
    /// The connection was lost after the request was sent: the server may have acted on it.
    #[error("the connection was lost before the answer came")]
    Lost {
        /// Why.
        source: SharedError,
    },
}

impl TransportError {
    /// Whether the server certainly did not act on the request, so that any verb may be repeated.
    pub fn is_unprocessed(&self) -> bool {
        match self {
            Self::Lost { source } => was_refused(&**source),
            Self::Resolve { .. } | Self::Dial { .. } | Self::Proxy { .. } | Self::Tls { .. } => true,
            Self::Timeout { .. } | Self::Http { .. } | Self::NotSent { .. } => true,
        }
    }

    /// Whether the server speaks TLS with us, but none of the protocols that were offered.
    fn is_for_want_of_protocol(&self) -> bool {
        let Self::Tls { source, .. } = self else {
            return false;
        };
        let refusal = source.get_ref().and_then(|error| error.downcast_ref());
        let wanted = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
        refusal == Some(&wanted)
    }

    /// Whether nobody listens at the address.
    pub fn is_connection_refused(&self) -> bool {
        matches!(self, Self::Dial { source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused)
    }
}

/// HTTP/2 names the streams a server has not looked at: refused ones, and those above the last one of a GOAWAY.
fn was_refused(error: &(dyn StdError + 'static)) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<h2::Error>())
        .any(|error| {
            let graceful =
                error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
            graceful || error.reason() == Some(h2::Reason::REFUSED_STREAM)
        })
}

/// What TLS said, if it ended the connection. Of all that can go wrong on a socket only TLS finds data invalid;
/// the h2 crate keeps the kind and the text of an IO error but not the error.
fn tls_refusal(error: &(dyn StdError + 'static)) -> Option<String> {
    let io = causes(error).find_map(|cause| match cause.downcast_ref::<h2::Error>() {
        Some(error) => error.get_io(),
        None => cause.downcast_ref::<std::io::Error>(),
    })?;
    (io.kind() == std::io::ErrorKind::InvalidData).then(|| io.to_string())
}

/// An error and what lies behind it.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
