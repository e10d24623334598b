//! What happened, as lines: `ADDED`, `MODIFIED` and `DELETED` with namespace, name, state and version.
//!
//! In flow the events of one or more watchers, out flow [`Happening`]s. A watcher says only that an object is there;
//! a [`Ledger`] remembers the version of each object it was told of, one short text per object, and so knows what is
//! new, what has changed, and, after a fresh list, what is gone.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use watchkeeper_meta::ObjectKey;
use watchkeeper_runtime::watcher::Event;
use watchkeeper_wire::Object;

/// Something that happened to one object.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub(crate) what: What,
    pub(crate) key: ObjectKey,
    /// The object; `None` where it went while nobody watched.
    pub(crate) object: Option<Object>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Added,
    Modified,
    /// Added or modified while nobody watched: after a restart nobody can tell.
    Applied,
    Deleted,
}

/// What is known of the objects of each stream.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    streams: HashMap<Arc<str>, Known>,
}

#[derive(Debug, Default)]
struct Known {
    versions: HashMap<ObjectKey, Box<str>>,
    /// Objects of the list under way.
    listed: Option<HashSet<ObjectKey>>,
    /// Whether a list has told everything there was; a stream that resumed knows nothing.
    is_complete: bool,
}

impl Ledger {
    /// Notes an event; returns what is worth telling.
    pub(crate) fn note(&mut self, stream: &Arc<str>, event: Event<Object>) -> Vec<Happening> {
        if !self.streams.contains_key(stream) {
            self.streams.insert(stream.clone(), Known::default());
        }
        let known = self.streams.get_mut(stream).expect("it was just put there");
        known.note(event)
    }

    /// Whether a list is under way.
    pub(crate) fn is_listing(&self) -> bool {
        self.streams.values().any(|known| known.listed.is_some())
    }

    /// How many objects are there now.
    pub(crate) fn len(&self) -> usize {
        self.streams.values().map(|known| known.versions.len()).sum()
    }
}

impl Known {
    fn note(&mut self, event: Event<Object>) -> Vec<Happening> {
        match event {
            Event::Init => self.listed = Some(HashSet::new()),
            Event::InitApply(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(object.key());
                }
                return self.apply(object, What::Added).into_iter().collect();
            }
            Event::InitDone(_) => {
                self.is_complete = true;
                return self.drop_unlisted();
            }
            Event::Apply(object) => {
                let unknown = if self.is_complete {
                    What::Added
                } else {
                    What::Applied
                };
                return self.apply(object, unknown).into_iter().collect();
            }
            Event::Delete(object) => {
                self.versions.remove(&object.key());
                return vec![Happening::of(What::Deleted, object)];
            }
            Event::Progress(_) => {}
        }
        Vec::new()
    }

    /// A list may show what is known already; then nothing has happened.
    fn apply(&mut self, object: Object, unknown: What) -> Option<Happening> {
        let version = object.resource_version();
        let before = self.versions.insert(object.key(), version.into());
        match before {
            None => Some(Happening::of(unknown, object)),
            Some(before) if *before == *version => None,
            Some(_) => Some(Happening::of(What::Modified, object)),
        }
    }

    fn drop_unlisted(&mut self) -> Vec<Happening> {
        let Some(listed) = self.listed.take() else {
            return Vec::new();
        };
        let gone = self.versions.keys().filter(|key| !listed.contains(*key));
        let mut gone: Vec<ObjectKey> = gone.cloned().collect();
        gone.sort_by_key(ToString::to_string);
        let tell = |key: ObjectKey| {
            self.versions.remove(&key);
            Happening {
                what: What::Deleted,
                key,
                object: None,
            }
        };
        gone.into_iter().map(tell).collect()
    }
}

impl Happening {
    fn of(what: What, object: Object) -> Self {
        Self {
            what,
            key: object.key(),
            object: Some(object),
        }
    }

    /// The state in a word or two: a pod's phase, a deployment's ready replicas.
    pub(crate) fn state(&self) -> String {
        let Some(object) = &self.object else {
            return "-".to_owned();
        };
        match object.to_value() {
            Ok(value) if object.is_deleting() && self.what != What::Deleted => match phase(&value) {
                Some(phase) => format!("{phase}, Terminating"),
                None => "Terminating".to_owned(),
            },
            Ok(value) => state(object.kind(), &value),
            Err(_) => "unreadable".to_owned(),
        }
    }

    pub(crate) fn version(&self) -> &str {
        self.object.as_ref().map_or("-", Object::resource_version)
    }
}

fn state(kind: &str, object: &Value) -> String {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => {
            format!(
                "{}/{} ready",
                count(&status["readyReplicas"]),
                spec["replicas"].as_u64().unwrap_or(1)
            )
        }
        "DaemonSet" => format!(
            "{}/{} ready",
            count(&status["numberReady"]),
            count(&status["desiredNumberScheduled"])
        ),
        "Job" => format!(
            "{}/{} done",
            count(&status["succeeded"]),
            spec["completions"].as_u64().unwrap_or(1)
        ),
        "Node" => if condition(object, "Ready") == Some("True") {
            "Ready"
        } else {
            "NotReady"
        }
        .to_owned(),
        "Service" => spec["type"].as_str().unwrap_or("-").to_owned(),
        "Pod" => pod_state(object),
        _ => phase(object).unwrap_or("-").to_owned(),
    }
}

/// A pod's phase, and what it waits for.
fn pod_state(pod: &Value) -> String {
    let phase = phase(pod).unwrap_or("-");
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    match (phase, waiting.as_str(), pod["spec"]["nodeName"].as_str()) {
        (_, Some(reason), _) => format!("{phase}, {reason}"),
        ("Pending", None, Some(node)) => format!("{phase} on {node}"),
        ("Running", None, _) if condition(pod, "Ready") == Some("False") => "Running, not ready".to_owned(),
        _ => phase.to_owned(),
    }
}

fn phase(object: &Value) -> Option<&str> {
    object["status"]["phase"].as_str()
}

/// The status of one of an object's conditions.
pub(crate) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v str> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| {
        condition["type"]
            .as_str()
            .is_some_and(|own| own.eq_ignore_ascii_case(kind))
    })?;
    found["status"].as_str()
}

impl What {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Applied => "APPLIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchkeeper_meta::ResourceVersion;
    use watchkeeper_wire::ObjectOptions;

    fn pod(name: &str, version: u32) -> Object {
        let json = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"status":{{"phase":"Running"}}}}"#
        );
        Object::from_json(json.as_bytes(), &ObjectOptions::default()).unwrap()
    }

    fn check(events: Vec<Event<Object>>, expected: &[&str]) {
        let mut ledger = Ledger::default();
        let stream: Arc<str> = "pods".into();
        let told: Vec<_> = events
            .into_iter()
            .flat_map(|event| ledger.note(&stream, event))
            .map(|told| format!("{} {} {} {}", told.what, told.key, told.state(), told.version()))
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_fresh_list_tells_only_what_has_changed() {
        let done = || Event::InitDone(ResourceVersion::new("9"));
        check(
            vec![
                Event::Init,
                Event::InitApply(pod("a", 1)),
                Event::InitApply(pod("b", 2)),
                Event::InitApply(pod("c", 3)),
                done(),
                Event::Apply(pod("a", 4)),
                Event::Init,
                Event::InitApply(pod("a", 4)),
                Event::InitApply(pod("b", 7)),
                Event::InitApply(pod("d", 8)),
                done(),
                Event::Delete(pod("d", 9)),
            ],
            &[
                "ADDED ns/a Running 1",
                "ADDED ns/b Running 2",
                "ADDED ns/c Running 3",
                "MODIFIED ns/a Running 4",
                "MODIFIED ns/b Running 7",
                "ADDED ns/d Running 8",
                "DELETED ns/c - -",
                "DELETED ns/d Running 9",
            ],
        );
    }

    #[test]
    fn after_a_restart_nobody_can_tell_new_from_changed() {
        check(
            vec![
                Event::Apply(pod("a", 5)),
                Event::Apply(pod("a", 6)),
                Event::Delete(pod("b", 7)),
            ],
            &[
                "APPLIED ns/a Running 5",
                "MODIFIED ns/a Running 6",
                "DELETED ns/b Running 7",
            ],
        );
    }
}
