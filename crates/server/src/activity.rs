//! The activity of a server, for tests that wait until it is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counters of a server. If two readings are equal and nothing is in flight, nothing has happened in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Requests not answered yet. A watch is answered when its stream starts.
    pub in_flight: usize,
    /// Requests received so far.
    pub requests: u64,
    /// Pieces of events sent to open watches so far.
    pub pieces: u64,
    /// The requests and pieces that went over a socket: other processes may react to them.
    pub over_sockets: u64,
}

/// The counters behind [`Activity`].
#[derive(Debug, Default)]
pub(crate) struct Counts {
    in_flight: AtomicUsize,
    requests: AtomicU64,
    pieces: AtomicU64,
    over_sockets: AtomicU64,
}

/// A request in flight, until it is dropped.
pub(crate) struct Busy(Arc<Counts>);

impl Counts {
    pub(crate) fn begin(self: &Arc<Self>, over_socket: bool) -> Busy {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.over_sockets
            .fetch_add(u64::from(over_socket), Ordering::Relaxed);
        Busy(self.clone())
    }

    pub(crate) fn piece_sent(&self, over_socket: bool) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.over_sockets
            .fetch_add(u64::from(over_socket), Ordering::Relaxed);
    }

    pub(crate) fn activity(&self) -> Activity {
        Activity {
            in_flight: self.in_flight.load(Ordering::Acquire),
            requests: self.requests.load(Ordering::Relaxed),
            pieces: self.pieces.load(Ordering::Relaxed),
            over_sockets: self.over_sockets.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
