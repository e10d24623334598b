//! Whether a controller works on what the cluster has: all its informers have their first list and run.
//!
//! A watch that fails for a while leaves it ready: the store shows the last known state, and the watch is tried again.

use crate::informer::{Health, Informer, WeakInformer};

/// Says whether a controller is ready. Asking keeps no informer running.
#[derive(Clone)]
pub struct Readiness {
    informers: Vec<(String, WeakInformer)>,
}

/// An informer of a controller does not follow the cluster.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotReadyError {
    /// It has no first list, or has stopped.
    #[error("informer of {resource}: {health}")]
    Informer {
        /// What it watches.
        resource: String,
        /// How it is doing.
        health: Box<Health>,
    },
    /// Nobody holds it any more: the controller has ended.
    #[error("informer of {resource} has ended")]
    Ended {
        /// What it watched.
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

    /// Fine, or the first informer that is not.
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

    /// Whether all is fine.
    pub fn is_ready(&self) -> bool {
        self.check().is_ok()
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").field(&self.check()).finish()
    }
}
