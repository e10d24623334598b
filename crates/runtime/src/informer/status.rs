//! The health of an informer: it can be awaited and printed.

use std::fmt;

use watchkeeper_meta::error_chain;

use crate::watcher::Failure;

/// The health of an informer.
#[derive(Clone, Debug)]
pub struct Health {
    /// Its phase.
    pub phase: HealthPhase,
    /// The current failure. Cleared by the next successful answer, or when the undecodable object can be decoded.
    pub failing: Option<Failure>,
}

/// The phase of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthPhase {
    /// The first list is not complete.
    Syncing,
    /// The store has the server's state or, while failing, the last known one.
    Synced,
    /// It has ended: it was stopped, its request is invalid (see `failing`), or a transform or index function has
    /// panicked.
    Stopped,
}

/// The first list was not complete in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("not synced: {health}")]
pub struct NotSyncedError {
    /// The health of the informer at the timeout.
    pub health: Health,
}

impl Health {
    /// True if the store has a complete list.
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
        write!(f, ", failing because {}", error_chain(failure))
    }
}
