//! An HTTP/1.1 connection for single requests to a server on this machine.
//!
//! Requests share HTTP/2 connections with the watches. On loopback the network costs so little that HTTP/2's frames,
//! windows and stream tables are a large part of a request. A request therefore takes the HTTP/1.1 connection if
//!
//! - the server is on this machine, over TLS and without a proxy ([`Connector::is_local`]),
//! - it is not a watch ([`Lane::Short`](super::Lane::Short)), and
//! - no other short request waits for its answer on HTTP/2: concurrent requests share HTTP/2.
//!
//! All others take HTTP/2, as do all requests to remote servers: nothing is gained there, and HTTP/2 tells which
//! requests a closing server did not process.
//!
//! Measured on two busy cores, medians of ten alternating runs: 4,000 sequential gets take 0.16 s of the client's CPU
//! time instead of 0.24, and 0.14 s of the server's instead of 0.23. A patch is answered after 0.12 ms instead of
//! 0.19, and its event arrives after 0.17 ms instead of 0.18 to 0.21. If this stops paying, delete this file, its
//! uses in `pool.rs`, and `ClientOptions::loopback_http1`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connector::Connector;

/// The number of such connections. More would serve concurrent requests, which HTTP/2 serves at less cost.
const CONNECTIONS: usize = 1;

/// Decides which requests take the HTTP/1.1 connection.
pub(super) struct LoopbackLane {
    /// One permit per connection. Closed if the server does not speak HTTP/1.1.
    permits: Arc<Semaphore>,
    /// The number of short requests that wait for their answers on HTTP/2.
    sharing: AtomicUsize,
}

/// Counts one short request on HTTP/2 until it is dropped.
pub(super) struct Sharing<'l>(&'l AtomicUsize);

impl LoopbackLane {
    /// The lane, if the server is local.
    pub(super) fn to(connector: &Connector) -> Option<Self> {
        (connector.is_local() && connector.has_tls()).then(|| Self {
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            sharing: AtomicUsize::new(0),
        })
    }

    /// True if no short request waits on HTTP/2.
    pub(super) fn is_for_lone_request(&self) -> bool {
        self.sharing.load(Ordering::Relaxed) == 0
    }

    /// A permit to open a connection, held while it lives. `None` if the connection exists, or the server does not
    /// speak HTTP/1.1.
    pub(super) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Disables the lane: the server does not speak HTTP/1.1.
    pub(super) fn close(&self) {
        self.permits.close();
    }

    /// Counts a short request on HTTP/2 until the guard is dropped.
    pub(super) fn share(&self) -> Sharing<'_> {
        self.sharing.fetch_add(1, Ordering::Relaxed);
        Sharing(&self.sharing)
    }
}

impl Drop for Sharing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
