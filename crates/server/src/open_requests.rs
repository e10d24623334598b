//! The open requests of one connection, from their head to the end of their response: determines if the connection is
//! idle.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::body::{ResponseBody, StreamCut};

/// The open requests of a connection. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequests(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    idle_since: Instant,
}

/// An open request, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenRequest(OpenRequests);

impl Default for OpenRequests {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            open: 0,
            idle_since: Instant::now(),
        })))
    }
}

impl OpenRequests {
    /// Opens a request.
    pub(crate) fn open(&self) -> OpenRequest {
        self.0.lock().open += 1;
        OpenRequest(self.clone())
    }

    /// True if a request is open.
    pub(crate) fn any(&self) -> bool {
        self.0.lock().open > 0
    }

    /// Waits until no request was open for this long.
    pub(crate) async fn idle_for(&self, limit: Duration) {
        while let Some(due) = self.due(limit) {
            tokio::time::sleep_until(due).await;
        }
    }

    /// The time at which the connection may have been idle for this long; `None` if it has.
    fn due(&self, limit: Duration) -> Option<Instant> {
        let (state, now) = (self.0.lock(), Instant::now());
        let since = if state.open > 0 { now } else { state.idle_since };
        Some(since + limit).filter(|due| *due > now)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.open -= 1;
        state.idle_since = Instant::now();
    }
}

/// The body of a response whose request is open.
pub(crate) struct OpenBody {
    pub body: ResponseBody,
    /// Ends with the body.
    pub _request: OpenRequest,
}

impl Body for OpenBody {
    type Data = Bytes;
    type Error = StreamCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamCut>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_the_end_of_its_last_request() {
        let requests = OpenRequests::default();
        let minute = Duration::from_secs(60);
        let (first, second) = (requests.open(), requests.open());
        let began = Instant::now();
        let work = async {
            tokio::time::sleep(minute / 2).await;
            drop(first);
            tokio::time::sleep(3 * minute).await;
            drop(second);
        };
        tokio::join!(requests.idle_for(minute), work);
        assert_eq!(began.elapsed(), minute / 2 + 4 * minute);
        assert!(!requests.any());
    }
}
