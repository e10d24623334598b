//! The open streams of a server, and the flow of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::rule::go_duration;
use super::{RequestMatch, Requester};
use crate::request_info::RequestInfo;

/// The flow of an open stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Flow {
    /// Events are sent at once.
    Running,
    /// Each event is delayed by this time.
    #[serde(with = "go_duration")]
    Slow(Duration),
    /// Nothing is sent; events accumulate as for a slow client.
    Stalled,
    /// The stream ends as at its timeout: a complete body.
    Ended,
    /// The stream breaks: an incomplete body, or a reset.
    Cut,
}

/// The streams by number, in the order they were opened, so that a repeated run processes them in the same order.
#[derive(Debug, Default)]
pub(super) struct Streams {
    next_id: u64,
    open: BTreeMap<u64, Stream>,
    /// Streams end, and so do those opened later.
    is_draining: bool,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) requester: Requester,
    pub(super) info: RequestInfo,
    flow: Arc<StreamFlow>,
}

/// The flow of one stream, as the task that sends its frames reads it. It is small and shares no lock, because there may
/// be ten thousand streams.
#[derive(Debug, Default)]
pub(crate) struct StreamFlow {
    state: Mutex<State>,
    task: AtomicWaker,
}

#[derive(Debug)]
struct State {
    flow: Flow,
    is_draining: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            flow: Flow::Running,
            is_draining: false,
        }
    }
}

impl StreamFlow {
    /// The flow now.
    pub(crate) fn now(&self) -> Flow {
        let state = self.state.lock();
        match state.flow {
            Flow::Cut => Flow::Cut,
            _ if state.is_draining => Flow::Ended,
            flow => flow,
        }
    }

    /// The flow now; the task is woken when it changes.
    pub(crate) fn follow(&self, context: &Context<'_>) -> Flow {
        // Registered before the look: a change in between wakes the task.
        self.task.register(context.waker());
        self.now()
    }

    fn set(&self, flow: Flow) -> bool {
        let before = std::mem::replace(&mut self.state.lock().flow, flow);
        self.task.wake();
        before != flow
    }

    fn drain(&self) {
        self.state.lock().is_draining = true;
        self.task.wake();
    }
}

impl Streams {
    pub(super) fn open(&mut self, requester: Requester, info: RequestInfo) -> (u64, Arc<StreamFlow>) {
        let flow = Arc::<StreamFlow>::default();
        if self.is_draining {
            flow.drain();
        }
        self.next_id += 1;
        let stream = Stream {
            requester,
            info,
            flow: flow.clone(),
        };
        self.open.insert(self.next_id, stream);
        (self.next_id, flow)
    }

    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        self.open.values().for_each(|stream| stream.flow.drain());
    }

    pub(super) fn close(&mut self, id: u64) {
        self.open.remove(&id);
    }

    pub(super) fn get(&self, id: u64) -> Option<&Stream> {
        self.open.get(&id)
    }

    pub(super) fn matching(&self, request: &RequestMatch) -> impl Iterator<Item = &Stream> {
        let open = self.open.values();
        open.filter(|stream| request.matches(&stream.requester, &stream.info))
    }
}

impl Stream {
    /// Sets the flow; false if it is unchanged.
    pub(super) fn set_flow(&self, flow: Flow) -> bool {
        self.flow.set(flow)
    }
}
