//! The state of a cluster after a step, for invariants.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_server::Write;
use watchkeeper_storage::{Key, Revision};

use crate::snapshot::{Snapshot, versioned};

/// The objects of the cluster, without its initial ones, and the last write.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    objects: &'a Objects,
    write: Option<&'a Write>,
}

/// Objects by key, updated incrementally.
#[derive(Debug, Default)]
pub(super) struct Objects {
    by_key: BTreeMap<Key, (Revision, Arc<Value>)>,
}

impl<'a> State<'a> {
    pub(super) fn new(objects: &'a Objects, write: Option<&'a Write>) -> Self {
        Self { objects, write }
    }

    /// The write just stored; `None` at the end of a run. Its `user` is the name of the process.
    pub fn write(&self) -> Option<&'a Write> {
        self.write
    }

    /// All objects of a kind, sorted by namespace and name.
    pub fn all(&self, kind: &str) -> Vec<&'a Value> {
        let objects = self.objects.by_key.values().map(|(_, object)| &**object);
        objects.filter(|object| object["kind"] == kind).collect()
    }

    /// An object by kind and name; `namespace` is empty for cluster-scoped objects.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&'a Value> {
        let is_meant = |object: &&Value| {
            let metadata = &object["metadata"];
            metadata["name"] == name && metadata["namespace"].as_str().unwrap_or_default() == namespace
        };
        self.all(kind).into_iter().find(is_meant)
    }

    /// The object with a uid.
    pub fn by_uid(&self, uid: &str) -> Option<&'a Value> {
        let mut objects = self.objects.by_key.values().map(|(_, object)| &**object);
        objects.find(|object| object["metadata"]["uid"] == uid)
    }
}

impl Objects {
    /// Updates to the current state.
    pub(super) fn update(&mut self, now: &Snapshot, bare: &Snapshot) {
        let mut before = std::mem::take(&mut self.by_key);
        for found in now.0.iter() {
            let is_bare = bare.0.get(&found.key);
            if is_bare.is_some_and(|bare| bare.mod_revision == found.mod_revision) {
                continue;
            }
            let known = before.remove(&found.key);
            let known = known.filter(|(revision, _)| *revision == found.mod_revision);
            let known = known.or_else(|| Some((found.mod_revision, Arc::new(versioned(&found)?))));
            self.by_key.extend(known.map(|known| (found.key, known)));
        }
    }
}

/// `namespace/name`, or the name of a cluster-scoped object.
pub(super) fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}
