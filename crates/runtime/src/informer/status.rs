//! How an informer is doing, in words that can be waited for and printed.

use std::fmt;

use crate::watcher::Failure;

/// How an informer is doing.
#[derive(Clone, Debug)]
pub struct Health {
    /// How far it has come.
    pub phase: HealthPhase,
    /// What is going wrong right now: gone as soon as the server is heard again, or the object that could not be
    /// read is.
    pub failing: Option<Failure>,
}

/// How far an informer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthPhase {
    /// The first list is not complete.
    Syncing,
    /// The store shows the server's state, or, while failing, the last one known.
    Synced,
    /// It has ended: it was stopped, its request is wrong and `failing` says how, or a transform or index function
    /// has panicked.
    Stopped,
}

/// The first list did not become complete in time, and why.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not synced: {health}")]
pub struct NotSyncedError {
    /// How the informer was doing when time was up.
    pub health: Health,
}

impl Health {
    /// Whether the store shows a complete list.
    pub fn is_synced(&self) -> bool {
        self.phase == HealthPhase::Synced
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.phase {
            HealthPhase::Syncing => "waiting for the first list",
            HealthPhase::Synced => "synced",
            HealthPhase::Stopped => "stopped",
        })?;
        let Some(failure) = &self.failing else {
            return Ok(());
        };
        write!(f, ", failing because {failure}")?;
        let mut source = std::error::Error::source(failure);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
