//! The server-sent events.
//! The next message is built when the browser has read the last one: a stalled browser costs one message, and gets the
//! number of missed log entries when it reads again. Messages are at least [`PAUSE`] apart, so a burst of changes is
//! one message.

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
use super::{Shared, entries, kind_json};
use crate::board::{Board, Unseen};

/// The shortest time between two messages.
const PAUSE: Duration = Duration::from_millis(250);

/// The longest time between two messages: rates fall without changes, and a dead connection is detected.
const QUIET: Duration = Duration::from_secs(5);

/// The largest number of log entries in one message.
const MAX_ENTRIES: usize = 500;

/// The same in the first message about a board: as many as the page keeps.
const MAX_FIRST_ENTRIES: usize = 5_000;

struct Stream {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    /// The generation of the board in the last message.
    generation: u64,
    next: u64,
    sent: Option<Instant>,
}

/// The stream of a browser that has seen all entries before `after`.
pub(super) fn events(shared: Arc<Shared>, after: u64) -> Answer {
    let state = Stream {
        changes: shared.live.changes(),
        generation: shared.live.generation(),
        shared,
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
    /// Waits for the next message; `None` once the board is closed.
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
        let shared = self.shared.clone();
        let before = self.generation;
        let (kinds, unseen) = shared.live.read(|board| {
            self.generation = shared.live.generation();
            let (kinds, now) = (board.kinds().iter(), shared.now());
            let kinds: Vec<Value> = kinds.map(|kind| kind_json(kind, now)).collect();
            (kinds, self.unseen(board, self.generation != before))
        });
        let entries: Vec<Value> = unseen.entries.iter().map(|entry| entries::json(entry)).collect();
        let recording = self.shared.recorded.as_ref().map(|recorded| recorded.span());
        json!({
            "kinds": kinds, "entries": entries, "missed": unseen.missed, "next": self.next,
            "reset": self.generation != before, "recording": recording,
        })
    }

    /// The log entries that were not sent yet; all of them if the board is another one.
    fn unseen(&mut self, board: &Board, is_other: bool) -> Unseen {
        let after = if is_other { 0 } else { self.next };
        self.next = board.next_sequence();
        let limit = if after == 0 {
            MAX_FIRST_ENTRIES
        } else {
            MAX_ENTRIES
        };
        board.unseen(after, limit)
    }
}
