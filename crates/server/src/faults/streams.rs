//! The open streams of a server, and the flow of each.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

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
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) requester: Requester,
    pub(super) info: RequestInfo,
    flow: watch::Sender<Flow>,
}

impl Streams {
    pub(super) fn open(&mut self, requester: Requester, info: RequestInfo) -> (u64, watch::Receiver<Flow>) {
        let (flow, receiver) = watch::channel(Flow::Running);
        self.next_id += 1;
        let stream = Stream {
            requester,
            info,
            flow,
        };
        self.open.insert(self.next_id, stream);
        (self.next_id, receiver)
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
        self.flow.send_replace(flow) != flow
    }
}
