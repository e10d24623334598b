//! What a recording tells: entries, each of one stream at one time.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use watchkeeper_meta::{GroupVersionKind, ObjectKey, Resource, ResourceVersion, Scope, Time};
use watchkeeper_wire::Object;

use crate::record::StreamRecord;

/// The cluster that a recording is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterIdentity {
    /// What tells the cluster from all others: the uid of the namespace `kube-system`. `None` if it may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What the server calls its version: `v1.37.0`.
    pub server_version: String,
}

/// The first frame of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    /// The cluster that is recorded.
    pub cluster: ClusterIdentity,
    /// When the segment begins.
    pub began: Time,
    /// The number of the segment, from 1.
    pub segment: u32,
    /// The field paths that were masked before anything was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<String>,
}

/// The objects of one resource that one list and watch shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What tells it from the other streams of the recording.
    pub name: Arc<str>,
    /// What it lists and watches.
    pub resource: Resource,
    /// In this namespace; empty for all, and for cluster-scoped resources.
    pub namespace: String,
    /// With these labels; empty for all.
    pub labels: String,
    /// With these fields; empty for all.
    pub fields: String,
    kind: Arc<GroupVersionKind>,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When the recorder heard of it. Times never go back within a recording.
    pub time: Time,
    /// The version at which it happened, if that is a number. Of an inferred end, the earliest it
    /// can have been.
    pub revision: Option<u64>,
    /// In which stream.
    pub stream: Arc<Stream>,
    /// What it was.
    pub what: What,
}

/// What happened in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The stream is followed from here on.
    Began,
    /// The object was there when the stream began to be followed.
    Listed(Object),
    /// The object came to be, or began to match the selectors.
    Added(Object),
    /// The object changed.
    Modified {
        /// Its new state.
        object: Object,
        /// Its state before.
        previous: Object,
    },
    /// The object is gone, or matches no longer.
    Deleted {
        /// Its last state: the server's word, or the last one known if the end is inferred.
        last: Object,
        /// True if the end was not seen: a list after a gap does not have the object.
        inferred: bool,
    },
    /// All that was told so far is the state at this version.
    Synced(ResourceVersion),
    /// Nothing else happened up to this version.
    Progress(ResourceVersion),
    /// Events are missing here. What follows, up to `Synced`, is the difference between the state before and a list.
    Gap(Gap),
    /// The stream cannot be followed at the moment. Whether events are lost shows when it goes on.
    Failed(String),
    /// The stream is not followed any more: the kind is gone, say. Its objects are not known from here on.
    Ended(String),
}

/// Events that were not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Everything up to this version is known; `None` if a list was interrupted.
    pub from: Option<ResourceVersion>,
    /// Everything from this version on is known; `None` if the list is so large that its version comes with `Synced`.
    pub to: Option<ResourceVersion>,
    /// Why.
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
    /// The object it is about; `None` if it is about the stream.
    pub fn object(&self) -> Option<&Object> {
        self.what.object()
    }

    /// The key of the object it is about.
    pub fn key(&self) -> Option<ObjectKey> {
        self.object().map(Object::key)
    }
}

impl What {
    /// The object, in the state that this tells of; `None` if it is about the stream.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Listed(object) | Self::Added(object) | Self::Modified { object, .. } => Some(object),
            Self::Deleted { last, .. } => Some(last),
            _ => None,
        }
    }

    /// The word for it: `ADDED`, `GAP` and so on.
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
