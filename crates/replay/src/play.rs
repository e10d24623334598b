//! Plays the rest of a recording into a running server.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use watchkeeper_meta::Time;
use watchkeeper_registry::Registry;
use watchkeeper_storage::{ImportedChange, WriteError};

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// A multiple of the recorded speed.
    Times(f64),
    /// Without pauses.
    Max,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Played {
    /// The changes of a version were applied.
    Step {
        /// The version.
        revision: u64,
        /// The time at which it was recorded.
        time: Time,
        /// The objects that changed.
        changes: Vec<PlayedChange>,
    },
    /// The server was written to and has its own history now: nothing more is played.
    Forked,
    /// Everything was played.
    Ended,
}

/// An object that was written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedChange {
    /// Its key in the store: `/registry/configmaps/default/settings`.
    pub key: String,
    /// True if it was deleted.
    pub is_deleted: bool,
}

impl PlayedChange {
    fn of(change: &ImportedChange) -> Self {
        Self {
            key: change.key.to_string(),
            is_deleted: change.value.is_none(),
        }
    }
}

/// The rest of a recording.
#[derive(Debug)]
pub struct Player {
    rest: VecDeque<ImportedChange>,
    /// The recorded time of the last change played.
    time: SystemTime,
}

impl Player {
    pub(crate) fn new(rest: Vec<ImportedChange>, time: Time) -> Self {
        Self {
            rest: rest.into(),
            time: time.into(),
        }
    }

    /// The number of changes left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// True if there is nothing left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Applies the changes of the next version, at once.
    pub async fn step(&mut self, registry: &Registry) -> Result<Played, WriteError> {
        let Some(first) = self.rest.front() else {
            return Ok(Played::Ended);
        };
        let revision = first.revision;
        let count = self
            .rest
            .iter()
            .take_while(|change| change.revision == revision)
            .count();
        let changes: Vec<_> = self.rest.drain(..count).collect();
        let time = changes
            .iter()
            .map(|change| change.written_at)
            .max()
            .unwrap_or(self.time);
        self.time = self.time.max(time);
        let objects = changes.iter().map(PlayedChange::of).collect();
        match registry.import(changes).await {
            Ok(_) => Ok(Played::Step {
                revision: revision.get(),
                time: time.into(),
                changes: objects,
            }),
            Err(WriteError::Past { .. }) => {
                self.rest.clear();
                Ok(Played::Forked)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits as long as the recording did before its next version, scaled by the speed. Uses tokio's clock.
    pub async fn pause(&self, speed: Speed) {
        let (Some(next), Speed::Times(times)) = (self.rest.front(), speed) else {
            return;
        };
        let gap = next
            .written_at
            .duration_since(self.time)
            .unwrap_or(Duration::ZERO);
        let pause = gap.as_secs_f64() / times.max(f64::MIN_POSITIVE);
        tokio::time::sleep(Duration::try_from_secs_f64(pause).unwrap_or(Duration::MAX)).await;
    }

    /// Plays everything that is left. Returns [`Played::Forked`] if the server was written to meanwhile.
    pub async fn play(&mut self, registry: &Registry, speed: Speed) -> Result<Played, WriteError> {
        loop {
            self.pause(speed).await;
            match self.step(registry).await? {
                Played::Step { .. } => {}
                end => return Ok(end),
            }
        }
    }
}
