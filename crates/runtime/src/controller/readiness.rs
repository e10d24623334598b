//! Readiness of a controller: all its informers run and have their first list.
//!
//! A watch that fails for a while leaves it ready: the store has the last known state, and the watch is retried.

use crate::informer::{Health, Informer, WeakInformer};

/// The readiness check of a controller. It does not keep informers running.
#[derive(Clone)]
pub struct Readiness {
    informers: Vec<(String, WeakInformer)>,
}

/// An informer of the controller is not in sync.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotReadyError {
    /// It has no first list, or has stopped.
    #[error("informer of {resource}: {health}")]
    Informer {
        /// The resource it watches.
        resource: String,
        /// Its health.
        health: Box<Health>,
    },
    /// It was dropped: the controller has ended.
    #[error("informer of {resource} has ended")]
    Ended {
        /// The resource it watched.
        resource: String,
    },
}

impl Readiness {
    pub(super) fn new(informers: impl Iterator<Item = Informer>) -> Self {
        let weak = |informer: Informer| (informer.name().to_owned(), informer.downgrade());
        Self {
            informers: informers.map(weak).collect(),
        }
    }

    /// Returns the first informer that is not ready as an error.
    pub fn check(&self) -> Result<(), NotReadyError> {
        self.informers.iter().try_for_each(|(resource, informer)| {
            let resource = resource.clone();
            let Some(informer) = informer.held() else {
                return Err(NotReadyError::Ended { resource });
            };
            let health = informer.health();
            match health.is_synced() {
                true => Ok(()),
                false => Err(NotReadyError::Informer {
                    resource,
                    health: Box::new(health),
                }),
            }
        })
    }

    /// True if all informers are ready.
    pub fn is_ready(&self) -> bool {
        self.check().is_ok()
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").field(&self.check()).finish()
    }
}
