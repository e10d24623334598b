//! The write path: many waiting writers, one commit.
//!
//! ```text
//! writer ─▶ queue ─▶ stage (compare-and-swap) ─▶ engine, durable ─▶ visible to readers and feeds ─▶ answer
//! ```
//!
//! A writer puts its command into the queue. If no commit is running, it starts the *leader*, which takes the waiting
//! commands, commits them together and repeats with those that have arrived meanwhile: the busier the store, the larger
//! the groups. The leader of a durable engine runs on tokio's blocking pool, which also stops a paused clock from
//! advancing during a disk write. The leader of the memory engine is the writer itself.
//!
//! Every answer of a group, even a conflict, is sent after the commit, because it may depend on a write of the same
//! group.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::engine::{Commit, Engine};
use crate::space::Outcome;
use crate::state::SharedState;
use crate::transaction::{Command, Transaction};
use crate::{EngineError, Revision, WriteError};

/// The largest number of writers waiting for the leader. Further ones wait for a permit; none is refused.
const MAX_QUEUED: usize = 1024;
/// The largest number of commands in one commit.
const MAX_GROUP: usize = 512;
/// The largest size of a commit in bytes, unless a single command is larger.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// The largest number of obsolete records removed with one commit, so that a large compaction does not delay writers.
const MAX_GARBAGE: usize = 256;

/// The result of a write.
pub(crate) type Answer = Result<Revision, WriteError>;

/// The write queue of a store.
pub(crate) struct GroupCommit {
    state: SharedState,
    places: Arc<Semaphore>,
    queue: Mutex<Queue>,
    /// Owned by the leader, and by `finish` after the last one, so this lock is never contended.
    writer: Mutex<Option<Writer>>,
    waits_for_disk: bool,
    /// Notified when a leader has left.
    idle: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    has_leader: bool,
    closed: bool,
}

struct Waiting {
    command: Command,
    answer: oneshot::Sender<Answer>,
    /// Kept with the command, because a writer may give up while its command stays queued. Maintenance has none: it
    /// limits itself.
    _place: Option<OwnedSemaphorePermit>,
}

struct Writer {
    engine: Box<dyn Engine>,
    /// Records to remove from the engine, oldest first: a deletion must not be removed before the record it deleted.
    garbage: VecDeque<Revision>,
}

impl GroupCommit {
    pub(crate) fn new(state: SharedState, engine: Box<dyn Engine>, garbage: Vec<Revision>) -> Arc<Self> {
        Arc::new(Self {
            state,
            places: Arc::new(Semaphore::new(MAX_QUEUED)),
            queue: Mutex::default(),
            waits_for_disk: engine.waits_for_disk(),
            writer: Mutex::new(Some(Writer {
                engine,
                garbage: garbage.into(),
            })),
            idle: Notify::new(),
        })
    }

    /// Runs a command. If the future is dropped, the command may still run.
    pub(crate) async fn submit(self: &Arc<Self>, command: Command) -> Answer {
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|_| WriteError::Closed)?;
        answered(self.enqueue(command, Some(place))?).await
    }

    /// Queues a command, and starts a leader if there is none.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        command: Command,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<oneshot::Receiver<Answer>, WriteError> {
        let (answer, receiver) = oneshot::channel();
        let mut queue = self.queue.lock();
        if queue.closed {
            return Err(WriteError::Closed);
        }
        queue.waiting.push_back(Waiting {
            command,
            answer,
            _place: place,
        });
        let starts = !std::mem::replace(&mut queue.has_leader, true);
        drop(queue);
        if starts {
            self.start_leader();
        }
        Ok(receiver)
    }

    fn start_leader(self: &Arc<Self>) {
        let leader = Leader {
            group_commit: self.clone(),
            resigned: false,
        };
        match self.waits_for_disk {
            true => drop(tokio::task::spawn_blocking(move || leader.lead())),
            false => leader.lead(),
        }
    }

    /// True if writes outlive the process.
    pub(crate) fn is_durable(&self) -> bool {
        self.waits_for_disk
    }

    /// Refuses new commands; queued ones still run.
    pub(crate) fn refuse(&self) {
        self.places.close();
        self.queue.lock().closed = true;
    }

    /// Waits until the queue is empty, then releases the engine. Call `refuse` first.
    pub(crate) async fn finish(self: &Arc<Self>) {
        loop {
            let left = self.idle.notified();
            if !self.queue.lock().has_leader {
                break;
            }
            left.await;
        }
        let this = self.clone();
        let release = move || drop(this.writer.lock().take());
        match self.waits_for_disk {
            // Fails only if the release panicked; then the engine is gone as well.
            true => drop(tokio::task::spawn_blocking(release).await),
            false => release(),
        }
    }

    /// The next group, possibly empty if there is garbage to remove; `None` if the leader may stop.
    fn take(&self, has_garbage: bool) -> Option<Vec<Waiting>> {
        let mut queue = self.queue.lock();
        let rest = queue.waiting.is_empty() && (queue.closed || !has_garbage);
        if rest {
            queue.has_leader = false;
            return None;
        }
        let mut bytes = 0;
        let fits = queue.waiting.iter().take(MAX_GROUP).take_while(|waiting| {
            bytes += waiting.command.size();
            bytes <= MAX_GROUP_BYTES
        });
        let count = fits.count().max(1).min(queue.waiting.len());
        Some(queue.waiting.drain(..count).collect())
    }

    /// True if space can be freed: there is garbage, or history that no longer fits.
    fn can_free(&self, writer: &Writer) -> bool {
        let has_history = || self.state.mvcc.read().history().len() > 0;
        !writer.garbage.is_empty() || (self.state.space.is_tight() && has_history())
    }

    /// Removes garbage and returns free pages to the file system. Writers wait meanwhile.
    pub(crate) async fn defragment(self: &Arc<Self>) -> Result<(), WriteError> {
        if !self.waits_for_disk {
            return Ok(());
        }
        let this = self.clone();
        let work = move || {
            let mut guard = this.writer.lock();
            let writer = guard.as_mut().ok_or(WriteError::Closed)?;
            while !writer.garbage.is_empty() {
                if !this.commit(writer, Vec::new()) {
                    break;
                }
            }
            writer.engine.defragment().map_err(WriteError::Engine)
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(WriteError::Engine(EngineError::new(error))))
    }

    /// Commits a group and answers its writers. Returns false if the engine failed.
    fn commit(&self, writer: &mut Writer, group: Vec<Waiting>) -> bool {
        let (transaction, answers) = self.stage(group);
        let garbage: Vec<_> = writer.garbage.iter().take(MAX_GARBAGE).copied().collect();
        let commit = Commit {
            records: &transaction.records,
            compacted: transaction.compacted,
            garbage: &garbage,
        };
        let committed = if commit.is_empty() {
            Ok(())
        } else {
            writer.engine.commit(&commit)
        };
        if writer.engine.has_failed() {
            self.state.note_failure();
        }
        let has_failed = writer.engine.has_failed();
        let committed = committed.map_err(|error| match error.is_no_space() && !has_failed {
            true => WriteError::NoSpace,
            false => WriteError::Engine(error),
        });
        let outcome = match &committed {
            Err(WriteError::NoSpace) => Outcome::Refused,
            _ => transaction.outcome,
        };
        self.state.space.note(writer.engine.used_bytes(), outcome);
        if committed.is_ok() {
            writer.garbage.drain(..garbage.len());
            self.state.publish(transaction.records);
            if let Some(revision) = transaction.compacted {
                writer.garbage.extend(self.state.compact(revision));
            }
        }
        for (waiting, answer) in answers {
            // A writer that gave up does not receive the answer.
            let _ = waiting.send(match &committed {
                Ok(()) => answer,
                Err(error) => Err(error.clone()),
            });
        }
        committed.is_ok()
    }

    fn stage(&self, group: Vec<Waiting>) -> (Transaction, Vec<(oneshot::Sender<Answer>, Answer)>) {
        let mvcc = self.state.mvcc.read();
        let space = &self.state.space;
        let mut transaction = Transaction::begin(&mvcc, self.state.clock.now(), space.room());
        if let Some(revision) = self.state.retention.overflow(&mvcc) {
            transaction.compact(revision);
        }
        if space.is_tight() && mvcc.history().len() > 0 {
            transaction.compact(mvcc.current());
        }
        let answers = group
            .into_iter()
            .map(|waiting| (waiting.answer, transaction.stage(&mvcc, waiting.command)))
            .collect();
        (transaction, answers)
    }
}

/// Waits for an answer. It is missing only if the engine panicked or the runtime is shutting down.
pub(crate) async fn answered(answer: oneshot::Receiver<Answer>) -> Answer {
    let stopped = || Err(WriteError::Engine(EngineError::new("the writer stopped")));
    answer.await.unwrap_or_else(|_| stopped())
}

/// The task that commits. There is at most one.
struct Leader {
    group_commit: Arc<GroupCommit>,
    /// True if the leader stopped with an empty queue, so that the next writer starts a new one.
    resigned: bool,
}

impl Leader {
    fn lead(mut self) {
        let group_commit = self.group_commit.clone();
        let mut guard = group_commit.writer.lock();
        let mut sweeping = true;
        loop {
            let Some(writer) = guard.as_mut() else { return };
            let Some(group) = group_commit.take(sweeping && group_commit.can_free(writer)) else {
                break;
            };
            // After a failure, garbage is left to the next leader, so that this one terminates.
            sweeping &= group_commit.commit(writer, group);
            // Lets `defragment` take the lock, which would otherwise wait until nobody writes.
            MutexGuard::bump(&mut guard);
        }
        self.resigned = true;
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.resigned {
            // The engine panicked, or the runtime is shutting down: waiting writers get an error, and the next one may
            // try again.
            let mut queue = self.group_commit.queue.lock();
            queue.waiting.clear();
            queue.has_leader = false;
        }
        self.group_commit.idle.notify_waiters();
    }
}
