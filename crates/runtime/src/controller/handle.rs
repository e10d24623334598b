//! Reconciles requested from outside: by a timer, a webhook or another system.

use watchkeeper_meta::ObjectKey;

use crate::informer::{Informer, WeakInformer};
use crate::queue::{AddOptions, LOW_PRIORITY, Queue};

/// Requests reconciles of a controller. Clones refer to the same controller.
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

    /// Reconciles one object. Returns false once the controller has ended.
    pub fn reconcile(&self, key: ObjectKey) -> bool {
        self.queue.add(key, AddOptions::default())
    }

    /// Reconciles every object in the store, after those that have changed. Use it when something all objects depend
    /// on has changed, such as the program's settings. Returns the number of objects.
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
