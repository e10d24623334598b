//! How many requests are answered at once. Beyond the limit a request is sent away with 429 and may come back;
//! nothing queues.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{MAX_READS_IN_FLIGHT, MAX_WRITES_IN_FLIGHT};
use crate::request_info::RequestInfo;

/// The places of a server.
#[derive(Debug)]
pub(crate) struct InFlight {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// A place; given back when dropped. Streams take none.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

/// All places are taken.
#[derive(Debug)]
pub(crate) struct Full;

impl Default for InFlight {
    fn default() -> Self {
        Self::new(MAX_READS_IN_FLIGHT, MAX_WRITES_IN_FLIGHT)
    }
}

impl InFlight {
    pub(crate) fn new(reads: usize, writes: usize) -> Self {
        Self {
            reads: Arc::new(Semaphore::new(reads)),
            writes: Arc::new(Semaphore::new(writes)),
        }
    }

    /// Takes a place for a request.
    pub(crate) fn enter(&self, info: &RequestInfo) -> Result<Place, Full> {
        let places = match info.is_mutating() {
            _ if info.is_long_running() => return Ok(Place { _permit: None }),
            true => &self.writes,
            false => &self.reads,
        };
        let permit = places.clone().try_acquire_owned().map_err(|_| Full)?;
        Ok(Place {
            _permit: Some(permit),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn reads_and_writes_have_places_of_their_own() {
        let in_flight = InFlight::new(1, 1);
        let read = RequestInfo::read(&Method::GET, "/api/v1/pods", "");
        let write = RequestInfo::read(&Method::POST, "/api/v1/namespaces/d/pods", "");
        let watch = RequestInfo::read(&Method::GET, "/api/v1/pods", "watch=1");
        let first = in_flight.enter(&read).unwrap();
        assert!(in_flight.enter(&read).is_err());
        assert!(in_flight.enter(&write).is_ok());
        assert!(in_flight.enter(&watch).is_ok());
        drop(first);
        assert!(in_flight.enter(&read).is_ok());
    }
}
