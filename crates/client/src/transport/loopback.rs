//! A short way to a server on this machine: one HTTP/1.1 connection for requests that come alone.
//!
//! Requests share HTTP/2 connections with the watches. On loopback the exchange itself takes so little time that
//! HTTP/2's frames, windows and stream tables are a good part of it. So a request takes the HTTP/1.1 connection if
//!
//! - the server is on this machine, over TLS and without a proxy ([`Connector::is_local`]),
//! - it is no watch ([`Lane::Short`](super::Lane::Short)), and
//! - no other short request waits for its answer on HTTP/2: requests that come together are sent together.
//!
//! Otherwise it goes on HTTP/2, and always does for remote servers: there is nothing to gain, and HTTP/2 tells which
//! requests a closing server has not seen.
//!
//! Measured on two busy cores, medians of ten alternating runs: 4,000 gets one after another take 0.16 s of the client's
//! CPU time instead of 0.24 and 0.14 s of the server's instead of 0.23; a patch is answered after 0.12 ms instead of 0.19
//! and its event arrives after 0.17 ms instead of 0.18 to 0.21. If that stops being worth it, delete this file, what
//! names it in `pool.rs`, and `ClientOptions::loopback_http1`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connector::Connector;

/// Connections of this kind. More would serve requests that come together, which share HTTP/2 at less cost.
const CONNECTIONS: usize = 1;

/// Decides which requests take the HTTP/1.1 connection.
pub(super) struct LoopbackLane {
    /// A permit for each connection. Closed if the server does not speak HTTP/1.1.
    places: Arc<Semaphore>,
    /// Short requests that wait for their answers on HTTP/2.
    sharing: AtomicUsize,
}

/// A short request that waits for its answer on HTTP/2.
pub(super) struct Sharing<'l>(&'l AtomicUsize);

impl LoopbackLane {
    /// The lane, if this server is one for which it pays.
    pub(super) fn to(connector: &Connector) -> Option<Self> {
        (connector.is_local() && connector.has_tls()).then(|| Self {
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            sharing: AtomicUsize::new(0),
        })
    }

    /// Whether no short request waits on HTTP/2.
    pub(super) fn is_for_lone_request(&self) -> bool {
        self.sharing.load(Ordering::Relaxed) == 0
    }

    /// Permission to open a connection, held for as long as it lives. `None` if there is one, or the server has no
    /// HTTP/1.1.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// The server does not speak HTTP/1.1: it is not asked again.
    pub(super) fn close(&self) {
        self.places.close();
    }

    /// Counts a short request that goes on HTTP/2, until the guard is dropped.
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
