//! Shows a recording on a board, at any moment.
//! The board has the objects at a moment, and a log with the recorded times up to it. Going to another moment reads the
//! recording again from its start.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use watchkeeper_meta::Time;
use watchkeeper_recording::{Entry, Moment, Recording, RecordingError, What};
use watchkeeper_runtime::follow::{FollowEvent, Gone, Restart};

use crate::board::Board;
use crate::feed::Live;

/// A recording and the current moment.
#[derive(Debug)]
pub struct RecordedView {
    recording: Recording,
    live: Arc<Live>,
    /// The times of all changes, in order.
    times: Vec<Timestamp>,
    shown: Mutex<Shown>,
    /// Held during a move: the next one starts where it ends.
    moving: Mutex<()>,
}

/// The current moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    at: Timestamp,
    revision: u64,
    moves: u64,
}

/// The span of a recording and the current moment, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedSpan {
    /// The first change.
    pub from: i64,
    /// The last change.
    pub to: i64,
    /// The current moment.
    pub at: i64,
    /// The number of changes up to it.
    pub changes: usize,
    /// The number of all changes.
    pub all: usize,
    /// The number of moves so far, which tells an earlier report from a later one.
    pub moves: u64,
}

impl RecordedView {
    /// Reads a recording and shows its end.
    pub fn open(recording: Recording) -> Result<Self, RecordingError> {
        let mut times = Vec::new();
        for entry in recording.entries() {
            let entry = entry?;
            if entry.object().is_some() {
                times.push(timestamp(entry.time));
            }
        }
        let view = Self {
            recording,
            live: Arc::default(),
            times,
            shown: Mutex::default(),
            moving: Mutex::default(),
        };
        view.go(view.times.last().copied().unwrap_or_default())?;
        Ok(view)
    }

    /// The board that shows it.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Goes to a time, or to the nearest one in the recording. Takes as long as reading the recording up to it.
    pub fn go(&self, at: Timestamp) -> Result<(), RecordingError> {
        let _moving = self.moving.lock();
        self.show(at)
    }

    fn show(&self, at: Timestamp) -> Result<(), RecordingError> {
        let (first, last) = (self.times.first(), self.times.last());
        let at = at
            .max(first.copied().unwrap_or(at))
            .min(last.copied().unwrap_or(at));
        let (board, revision) = board_at(&self.recording, at)?;
        // First: readers of the new board report its moment.
        let moves = self.span().moves + 1;
        *self.shown.lock() = Shown { at, revision, moves };
        self.live.replace(board);
        Ok(())
    }

    /// Goes that many changes forward, or back if negative. Changes of one millisecond count as one.
    pub fn step(&self, by: i64) -> Result<(), RecordingError> {
        let _moving = self.moving.lock();
        let mut at = self.shown.lock().at;
        for _ in 0..by.unsigned_abs().min(self.times.len() as u64) {
            let next = match by > 0 {
                true => self.times.get(self.times.partition_point(|time| *time <= at)),
                false => {
                    let before = self.times.partition_point(|time| *time < at);
                    before.checked_sub(1).map(|index| &self.times[index])
                }
            };
            at = next.copied().unwrap_or(at);
        }
        self.show(at)
    }

    /// The version of the cluster at the current moment.
    pub fn revision(&self) -> u64 {
        self.shown.lock().revision
    }

    /// The span and the current moment.
    pub fn span(&self) -> RecordedSpan {
        let Shown { at, moves, .. } = *self.shown.lock();
        let millis = |time: Option<&Timestamp>| time.map_or(0, |time| time.as_millisecond());
        RecordedSpan {
            from: millis(self.times.first()),
            to: millis(self.times.last()),
            at: at.as_millisecond(),
            changes: self.times.partition_point(|time| *time <= at),
            all: self.times.len(),
            moves,
        }
    }
}

/// The board at a time, and the version of the cluster then.
fn board_at(recording: &Recording, at: Timestamp) -> Result<(Board, u64), RecordingError> {
    let (mut board, mut revision) = (Board::default(), 0);
    let end = Moment::Time(Time {
        seconds: at.as_second(),
        nanos: at.subsec_nanosecond(),
    });
    for entry in recording.entries() {
        let entry = entry?;
        if end.is_before(&entry) {
            break;
        }
        take(&mut board, &entry);
        // The versions of listed objects are older than the list; a gap has the version before it.
        if !matches!(entry.what, What::Listed(_) | What::Gap(_)) {
            revision = revision.max(entry.revision.unwrap_or_default());
        }
    }
    Ok((board, revision))
}

fn take(board: &mut Board, entry: &Entry) {
    let (name, at) = (&entry.stream.name, timestamp(entry.time));
    let known = board.kinds().iter().position(|kind| kind.name == *name);
    let kind = known.unwrap_or_else(|| board.add(name.clone(), entry.stream.resource.clone()));
    match &entry.what {
        What::Began => {}
        What::Failed(reason) => board.fail(kind, reason, at),
        What::Ended(reason) => board.retire(kind, reason, at),
        what => {
            if let Some(event) = event_of(what) {
                board.note(kind, &event, at);
            }
        }
    }
}

/// The event as the recorder received it.
fn event_of(what: &What) -> Option<FollowEvent> {
    Some(match what {
        What::Listed(object) | What::Added(object) => FollowEvent::Added(object.clone()),
        What::Modified { object, .. } => FollowEvent::Modified(object.clone()),
        What::Deleted { last, inferred } => FollowEvent::Deleted(Gone {
            key: last.key(),
            uid: last.uid().into(),
            version: last.version(),
            last: (!inferred).then(|| last.clone()),
        }),
        What::Synced(version) => FollowEvent::Synced(version.clone()),
        What::Progress(version) => FollowEvent::Bookmark(version.clone()),
        What::Gap(gap) => FollowEvent::Restarted(Restart {
            from: gap.from.clone(),
            to: gap.to.clone(),
            reason: gap.reason.clone(),
            knows_deletes: true,
        }),
        What::Began | What::Failed(_) | What::Ended(_) => return None,
    })
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp::new(time.seconds, time.nanos).unwrap_or_default()
}
