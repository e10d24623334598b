//! What leads to a reconcile: changes, seen through a predicate and turned into keys.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_meta::{ObjectKey, Resource, Scope};
use watchkeeper_wire::Object;

use super::is_news;
use crate::delta::{Cause, Delta};
use crate::informer::{Informer, Notice, Resync, SubscribeOptions};
use crate::queue::{AddOptions, LOW_PRIORITY, Queue};

/// Decides whether a change counts. It sees deletes and both states of an update.
pub type Predicate = Arc<dyn Fn(&Delta) -> bool + Send + Sync>;

/// Finds the keys to reconcile for an object.
pub type Mapping = Arc<dyn Fn(&Object) -> Vec<ObjectKey> + Send + Sync>;

/// Leaves out updates that change only status or metadata: those that keep the generation. Adds, deletes, resyncs and
/// recreated objects always count, and so does every update of a kind without generations, such as a ConfigMap.
pub fn generation_changed() -> Predicate {
    Arc::new(|delta| match delta {
        Delta::Updated {
            cause: Cause::Resync, ..
        } => true,
        Delta::Updated { new, .. } if new.generation() == 0 => true,
        Delta::Updated { old, new, .. } => old.generation() != new.generation() || old.uid() != new.uid(),
        Delta::Added { .. } | Delta::Deleted { .. } => true,
    })
}

/// The object itself.
pub(super) fn same_key() -> Mapping {
    Arc::new(|object| vec![object.key()])
}

/// The object of this resource that controls another one.
pub(super) fn controller_of(owner: &Resource) -> Mapping {
    let owner = owner.clone();
    Arc::new(move |object| {
        let Some(reference) = object.controller() else {
            return Vec::new();
        };
        let group = reference
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        // The version may differ: an owner keeps its references when its kind gets a new one.
        if group != owner.group || reference.kind != owner.kind {
            return Vec::new();
        }
        let namespace = match owner.scope {
            Scope::Namespaced => object.namespace(),
            Scope::Cluster => "",
        };
        vec![ObjectKey::new(namespace, &reference.name)]
    })
}

/// One informer that leads to reconciles.
pub(super) struct Trigger {
    informer: Informer,
    mapping: Mapping,
    predicate: Option<Predicate>,
    resync: Resync,
}

impl Trigger {
    pub(super) fn new(informer: Informer, mapping: Mapping, predicate: Option<Predicate>) -> Self {
        Self {
            informer,
            mapping,
            predicate,
            resync: Resync::default(),
        }
    }

    pub(super) fn with_resync(self, resync: Resync) -> Self {
        Self { resync, ..self }
    }

    pub(super) fn informer(&self) -> Informer {
        self.informer.clone()
    }

    /// Adds keys until the informer ends.
    pub(super) async fn run(self, queue: Queue<ObjectKey>, debounce: Duration) {
        let mut changes = self.informer.subscribe(SubscribeOptions {
            resync: self.resync,
            ..Default::default()
        });
        while let Some(notice) = changes.next().await {
            if let Notice::Change(delta) = notice {
                self.add(&delta, &queue, debounce);
            }
        }
        tracing::warn!("an informer of a controller has ended: what changes there is no longer reconciled");
    }

    fn add(&self, delta: &Delta, queue: &Queue<ObjectKey>, debounce: Duration) {
        // A change nobody can judge counts: a reconcile too many harms less than one too few.
        if !guarded("predicate", delta, || self.counts(delta)).unwrap_or(true) {
            return;
        }
        let options = AddOptions {
            priority: if is_news(delta) { 0 } else { LOW_PRIORITY },
            after: debounce,
        };
        let keys = guarded("mapping", delta, || self.keys(delta));
        for key in keys.unwrap_or_default() {
            queue.add(key, options);
        }
    }

    fn counts(&self, delta: &Delta) -> bool {
        self.predicate.as_ref().is_none_or(|predicate| predicate(delta))
    }

    fn keys(&self, delta: &Delta) -> Vec<ObjectKey> {
        let mut keys = (self.mapping)(delta.object());
        keys.extend(delta.old().into_iter().flat_map(|old| (self.mapping)(old)));
        keys
    }
}

/// Asks the user's function. `None` if it panics, which is reported: the changes that follow are told all the same.
fn guarded<T>(what: &str, delta: &Delta, ask: impl FnOnce() -> T) -> Option<T> {
    let answer = catch_unwind(AssertUnwindSafe(ask));
    if answer.is_err() {
        tracing::error!(key = %delta.key(), "a {what} has panicked");
    }
    answer.ok()
}
