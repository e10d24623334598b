//! What happens, as server-sent events.
//!
//! The next message is made when the browser has taken the last one: a browser that stalls costs one message, and is told
//! how many log entries it missed when it reads again. Messages are at least [`PAUSE`] apart, so a burst of changes is one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::{Answer, dressed};
use super::{entries, kind_json};
use crate::feed::Live;

/// The least time between two messages: people do not read faster.
const PAUSE: Duration = Duration::from_millis(250);

/// After so long without a change a message is sent all the same: rates fall, and a dead connection is noticed.
const QUIET: Duration = Duration::from_secs(5);

/// The most log entries in one message.
const MAX_ENTRIES: usize = 500;

struct Stream {
    live: Arc<Live>,
    changes: watch::Receiver<u64>,
    next: u64,
    sent: Option<Instant>,
}

/// The stream of a browser that has seen all entries before `after`.
pub(super) fn events(live: Arc<Live>, after: u64) -> Answer {
    let state = Stream {
        changes: live.changes(),
        live,
        next: after,
        sent: None,
    };
    let frames = stream::unfold(state, |mut state| async move {
        state.wait().await?;
        let message = format!("data: {}\n\n", state.message());
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(message))), state))
    });
    dressed(
        StatusCode::OK,
        "text/event-stream",
        StreamBody::new(frames).boxed_unsync(),
    )
}

impl Stream {
    /// Returns when there is something to say; `None` once nobody feeds the board.
    async fn wait(&mut self) -> Option<()> {
        if let Some(sent) = self.sent {
            tokio::time::sleep_until(sent + PAUSE).await;
            let changed = tokio::time::timeout_at(sent + QUIET, self.changes.changed()).await;
            if let Ok(Err(_)) = changed {
                return None;
            }
        }
        self.changes.borrow_and_update();
        self.sent = Some(Instant::now());
        Some(())
    }

    fn message(&mut self) -> Value {
        let (kinds, unseen, next) = self.live.read(|board| {
            let kinds: Vec<Value> = board.kinds().iter().map(kind_json).collect();
            (kinds, board.unseen(self.next, MAX_ENTRIES), board.next_sequence())
        });
        self.next = next;
        let entries: Vec<Value> = unseen.entries.iter().map(|entry| entries::json(entry)).collect();
        json!({ "kinds": kinds, "entries": entries, "missed": unseen.missed, "next": next })
    }
}
