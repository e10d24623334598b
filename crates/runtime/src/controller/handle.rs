//! Reconciles that no change led to: a timer, a webhook or another system asks for them.

use watchkeeper_meta::ObjectKey;

use crate::informer::{Informer, WeakInformer};
use crate::queue::{AddOptions, LOW_PRIORITY, Queue};

/// Asks a controller to reconcile, from anywhere. Clones ask the same one.
#[derive(Clone)]
pub struct ReconcileHandle {
    queue: Queue<ObjectKey>,
    primary: WeakInformer,
}

impl ReconcileHandle {
    pub(super) fn new(queue: Queue<ObjectKey>, primary: &Informer) -> Self {
        Self {
            queue,
            primary: primary.downgrade(),
        }
    }

    /// One object. False once the controller has ended.
    pub fn reconcile(&self, key: ObjectKey) -> bool {
        self.queue.add(key, AddOptions::default())
    }

    /// Every object that is there, behind those that have changed: after a change of what they all depend on, such as
    /// the program's settings. Says how many that are.
    pub fn reconcile_all(&self) -> usize {
        let Some(primary) = self.primary.held() else {
            return 0;
        };
        let options = AddOptions {
            priority: LOW_PRIORITY,
            ..Default::default()
        };
        let snapshot = primary.store().snapshot();
        let added = snapshot.keys().filter(|key| self.queue.add(key.clone(), options));
        added.count()
    }
}

impl std::fmt::Debug for ReconcileHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReconcileHandle")
            .field("queue", &self.queue.stats())
            .finish()
    }
}
