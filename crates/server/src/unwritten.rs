//! Responses that are not completely written yet. Each keeps its seat and its deadline until its last byte is handed
//! to the connection.
//!
//! A client that reads slowly, or opens no HTTP/2 window, makes the server hold the response, so it counts as in
//! flight. A late response in pieces is cut at its next piece. If no piece is requested, or HTTP/2 has all bytes
//! already, the connection is closed: bytes cannot be taken back from one of its streams.
//!
//! One task handles all late responses of a server. It exists while there are responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{Pieces, ResponseBody, StreamCut};
use crate::flow_control::Seat;
use crate::hangup::Hangup;
use crate::limits::LATE_ANSWER_GRACE;
use crate::respond::Answer;

/// The unwritten responses of a server. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unwritten(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    answers: Mutex<Answers>,
    /// Notified when a response has an earlier deadline than all others.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Answers {
    by_deadline: BTreeMap<Key, Held>,
    last: u64,
    is_seen_to: bool,
}

/// The time at which a response is too late, and a number that makes it unique.
type Key = (Instant, u64);

/// The resources held by an unwritten response.
#[derive(Debug)]
struct Held {
    /// Released when the response is written.
    _seat: Option<Seat>,
    /// The connection to close if it is late; `None` if it only loses its seat.
    peer: Option<Hangup>,
}

/// The terms on which a response is held.
pub(crate) struct Terms {
    pub seat: Option<Seat>,
    /// `None` without a limit.
    pub deadline: Option<Instant>,
    pub peer: Hangup,
}

/// A part of a response that is not written. When the last one is dropped, the response is written.
#[derive(Debug)]
pub(crate) struct PartGuard {
    unwritten: Unwritten,
    /// The seat of a response without a limit.
    _seat: Option<Seat>,
    key: Option<Key>,
}

impl Unwritten {
    /// Holds the seat and deadline of a response until it is written. A stream holds them until it has sent all
    /// available events, and is not cut.
    pub(crate) fn hold(
        &self,
        answer: Answer,
        terms: Terms,
        tasks: &TaskTracker,
        draining: &CancellationToken,
    ) -> Answer {
        let (head, body) = answer.into_parts();
        let deadline = terms.deadline;
        let is_stream = matches!(body, ResponseBody::Stream { .. });
        let token = || self.token(terms, !is_stream, tasks, draining);
        let body = match body {
            ResponseBody::Whole(None) => ResponseBody::Whole(None),
            ResponseBody::Whole(Some(bytes)) => {
                let whole = Piece {
                    bytes,
                    _token: token(),
                };
                ResponseBody::Whole(Some(Bytes::from_owner(whole)))
            }
            ResponseBody::Pieces(pieces) => ResponseBody::Pieces(Box::new(HeldPieces {
                pieces: Some(pieces),
                deadline,
                token: Arc::new(token()),
            })),
            ResponseBody::Stream {
                frames, is_copied, ..
            } => ResponseBody::Stream {
                frames,
                is_copied,
                unwritten: Some(Box::new(token())),
            },
        };
        Answer::from_parts(head, body)
    }

    fn token(
        &self,
        terms: Terms,
        is_cut: bool,
        tasks: &TaskTracker,
        draining: &CancellationToken,
    ) -> PartGuard {
        let Some(deadline) = terms.deadline else {
            return PartGuard {
                unwritten: self.clone(),
                _seat: terms.seat,
                key: None,
            };
        };
        let held = Held {
            _seat: terms.seat,
            peer: is_cut.then_some(terms.peer),
        };
        let mut answers = self.0.answers.lock();
        answers.last += 1;
        let key = (deadline + LATE_ANSWER_GRACE, answers.last);
        let is_first = answers
            .by_deadline
            .first_key_value()
            .is_none_or(|(first, _)| key < *first);
        answers.by_deadline.insert(key, held);
        let is_seen_to = std::mem::replace(&mut answers.is_seen_to, true);
        drop(answers);
        match is_seen_to {
            false => {
                let (unwritten, draining) = (self.clone(), draining.clone());
                // Shutdown has its own limit.
                let task = async move {
                    draining
                        .run_until_cancelled(unwritten.close_late_responses())
                        .await
                };
                tasks.spawn(task);
            }
            true if is_first => self.0.sooner.notify_one(),
            true => {}
        }
        PartGuard {
            unwritten: self.clone(),
            _seat: None,
            key: Some(key),
        }
    }

    async fn close_late_responses(self) {
        while let Some(next) = self.next_deadline() {
            tokio::select! {
                () = tokio::time::sleep_until(next) => self.close_late_connections(),
                () = self.0.sooner.notified() => {}
            }
        }
    }

    /// The next deadline; `None` ends the task.
    fn next_deadline(&self) -> Option<Instant> {
        let mut answers = self.0.answers.lock();
        let first = answers
            .by_deadline
            .first_key_value()
            .map(|((deadline, _), _)| *deadline);
        answers.is_seen_to = first.is_some();
        first
    }

    fn close_late_connections(&self) {
        let now = Instant::now();
        let late = {
            let mut answers = self.0.answers.lock();
            let in_time = answers.by_deadline.split_off(&(now, u64::MAX));
            std::mem::replace(&mut answers.by_deadline, in_time)
        };
        for peer in late.into_values().filter_map(|held| held.peer) {
            peer.break_now();
        }
    }
}

impl Drop for PartGuard {
    fn drop(&mut self) {
        let held = self
            .key
            .and_then(|key| self.unwritten.0.answers.lock().by_deadline.remove(&key));
        // Releases the seat without holding the lock.
        drop(held);
    }
}

/// Bytes of a response.
struct Piece<T> {
    bytes: Bytes,
    _token: T,
}

impl<T> AsRef<[u8]> for Piece<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The pieces of a response, which end when it is late.
struct HeldPieces {
    /// `None` once it was late.
    pieces: Option<Pieces>,
    deadline: Option<Instant>,
    token: Arc<PartGuard>,
}

impl Iterator for HeldPieces {
    type Item = Result<Bytes, StreamCut>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return self.pieces.take().map(|_| Err(StreamCut));
        }
        let piece = self.pieces.as_mut()?.next()?;
        let held = |bytes| Piece {
            bytes,
            _token: self.token.clone(),
        };
        Some(piece.map(|bytes| Bytes::from_owner(held(bytes))))
    }
}
