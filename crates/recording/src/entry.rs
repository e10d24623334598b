//! The entries of a recording. Each belongs to one stream and has a time.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use watchkeeper_meta::{GroupVersionKind, ObjectKey, Resource, ResourceVersion, Scope, Time};
use watchkeeper_wire::Object;

use crate::record::StreamRecord;

/// The recorded cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterIdentity {
    /// The cluster's identity: the uid of the namespace `kube-system`. `None` if it may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The server's version: `v1.37.0`.
    pub server_version: String,
}

/// The first frame of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    /// The recorded cluster.
    pub cluster: ClusterIdentity,
    /// The start time of the segment.
    pub began: Time,
    /// The number of the segment, from 1.
    pub segment: u32,
    /// The field paths that were masked before writing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<String>,
}

/// The objects of one list and watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The unique name within the recording.
    pub name: Arc<str>,
    /// The listed and watched resource.
    pub resource: Resource,
    /// The namespace; empty for all, and for cluster-scoped resources.
    pub namespace: String,
    /// The label selector; empty for all.
    pub labels: String,
    /// The field selector; empty for all.
    pub fields: String,
    kind: Arc<GroupVersionKind>,
}

/// One entry of a recording.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The time at which the recorder received it. Times never go back within a recording.
    pub time: Time,
    /// The version at which it happened, if it is a number. For an inferred deletion, the earliest possible one.
    pub revision: Option<u64>,
    /// The stream.
    pub stream: Arc<Stream>,
    /// The content.
    pub what: What,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The recorder starts to follow the stream.
    Began,
    /// The object existed when the recorder started to follow the stream.
    Listed(Object),
    /// The object was created, or started to match the selectors.
    Added(Object),
    /// The object was updated.
    Modified {
        /// The new state.
        object: Object,
        /// The previous state.
        previous: Object,
    },
    /// The object was deleted, or no longer matches.
    Deleted {
        /// The last state: from the server, or the last known one if the deletion is inferred.
        last: Object,
        /// True if the deletion was not seen: the object is missing in a list after a gap.
        inferred: bool,
    },
    /// The entries so far are the complete state at this version.
    Synced(ResourceVersion),
    /// Nothing else happened up to this version.
    Progress(ResourceVersion),
    /// Events are missing. The entries up to the next `Synced` are the difference between the state before and a list.
    Gap(Gap),
    /// The stream fails at the moment. Whether events are lost shows when it recovers.
    Failed(String),
    /// The stream is no longer followed, for example because the kind was removed. Its objects are unknown from here
    /// on.
    Ended(String),
}

/// A range of events that was not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Everything up to this version is known; `None` if a list was interrupted.
    pub from: Option<ResourceVersion>,
    /// Everything from this version on is known; `None` if the list is so large that its version comes with `Synced`.
    pub to: Option<ResourceVersion>,
    /// The reason.
    pub reason: String,
}

impl Stream {
    /// The stream of a resource. Namespace and selectors are empty for all.
    pub fn new(resource: Resource, namespace: &str, labels: &str, fields: &str) -> Self {
        let mut name = resource.group_version_resource().group_resource().to_string();
        for (word, value) in [
            ("in", namespace),
            ("with labels", labels),
            ("with fields", fields),
        ] {
            if !value.is_empty() {
                name.push_str(&format!(" {word} {value}"));
            }
        }
        Self {
            name: name.into(),
            kind: Arc::new(resource.group_version_kind()),
            resource,
            namespace: namespace.to_owned(),
            labels: labels.to_owned(),
            fields: fields.to_owned(),
        }
    }

    /// The kind of its objects.
    pub fn kind(&self) -> &Arc<GroupVersionKind> {
        &self.kind
    }

    pub(crate) fn to_record(&self) -> StreamRecord<'_> {
        StreamRecord {
            name: &self.name,
            group: &self.resource.group,
            version: &self.resource.version,
            kind: &self.resource.kind,
            plural: &self.resource.plural,
            is_namespaced: self.resource.scope == Scope::Namespaced,
            namespace: &self.namespace,
            labels: &self.labels,
            fields: &self.fields,
        }
    }

    pub(crate) fn from_record(record: &StreamRecord<'_>) -> Self {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        let resource = Resource {
            group: owned(record.group),
            version: owned(record.version),
            kind: owned(record.kind),
            plural: owned(record.plural),
            scope: match record.is_namespaced {
                true => Scope::Namespaced,
                false => Scope::Cluster,
            },
        };
        Self {
            name: record.name.into(),
            ..Self::new(resource, record.namespace, record.labels, record.fields)
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Entry {
    /// The object; `None` for entries about the stream.
    pub fn object(&self) -> Option<&Object> {
        self.what.object()
    }

    /// The key of the object.
    pub fn key(&self) -> Option<ObjectKey> {
        self.object().map(Object::key)
    }
}

impl What {
    /// The object in its new or last state; `None` for entries about the stream.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Listed(object) | Self::Added(object) | Self::Modified { object, .. } => Some(object),
            Self::Deleted { last, .. } => Some(last),
            _ => None,
        }
    }

    /// The name of the entry type: `ADDED`, `GAP` and so on.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Began => "BEGAN",
            Self::Listed(_) => "LISTED",
            Self::Added(_) => "ADDED",
            Self::Modified { .. } => "MODIFIED",
            Self::Deleted { .. } => "DELETED",
            Self::Synced(_) => "SYNCED",
            Self::Progress(_) => "BOOKMARK",
            Self::Gap(_) => "GAP",
            Self::Failed(_) => "FAILED",
            Self::Ended(_) => "ENDED",
        }
    }
}
