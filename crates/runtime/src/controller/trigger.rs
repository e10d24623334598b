//! Triggers: changes that pass a predicate are mapped to keys to reconcile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_meta::{ObjectKey, Resource, Scope};
use watchkeeper_wire::Object;

use super::is_news;
use crate::delta::{Cause, Delta};
use crate::informer::{Informer, Notice, Resync, SubscribeOptions};
use crate::queue::{AddOptions, LOW_PRIORITY, Queue};

/// Decides whether a change triggers a reconcile. It sees deletes and both states of an update.
pub type Predicate = Arc<dyn Fn(&Delta) -> bool + Send + Sync>;

/// Maps an object to the keys to reconcile.
pub type Mapping = Arc<dyn Fn(&Object) -> Vec<ObjectKey> + Send + Sync>;

/// Ignores updates that keep the generation: those of status or metadata only. Adds, deletes, resyncs and recreated
/// objects always pass, and so does every update of a kind without generations, such as a ConfigMap.
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

/// Maps an object to its own key.
pub(super) fn same_key() -> Mapping {
    Arc::new(|object| vec![object.key()])
}

/// Maps an object to its controller, if that is of the resource `owner`.
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
        // The version may differ: references stay when the owner's kind gets a new version.
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

/// An informer that triggers reconciles.
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

    /// Queues keys until the informer ends.
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
        tracing::warn!("an informer of a controller has ended: its changes are no longer reconciled");
    }

    fn add(&self, delta: &Delta, queue: &Queue<ObjectKey>, debounce: Duration) {
        // If the predicate panics, the change counts: one reconcile too many harms less than one too few.
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

/// Calls the user's function. A panic is logged and returns `None`; later changes are still processed.
fn guarded<T>(what: &str, delta: &Delta, ask: impl FnOnce() -> T) -> Option<T> {
    let answer = catch_unwind(AssertUnwindSafe(ask));
    if answer.is_err() {
        tracing::error!(key = %delta.key(), "a {what} has panicked");
    }
    answer.ok()
}
