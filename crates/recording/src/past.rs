//! The recent history of a live cluster.
//!
//! A server retains some minutes of history: it can list at an older version and watch from it. This module reads that
//! history as the entries of a recording: the objects at the oldest retained version, then every later change.
//! [`Past::from`] is that version; earlier history is unknown.
//!
//! ```text
//! expired   │ oldest version: a list │ then a watch from there     │ now: another list, to check against
//! ──────────┼────────────────────────┼─────────────────────────────┼──▶
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use watchkeeper_client::{Client, DynamicApi, Error, WatchEvent, WatchStream};
use watchkeeper_meta::{
    FieldSelector, ListOptions, ObjectKey, Resource, ResourceVersion, ResourceVersionMatch, Status,
    WatchOptions,
};
use watchkeeper_wire::Object;

use crate::entry::{Entry, Stream, What};
use crate::search::{ObjectDiff, differences};

/// A server sends its history at once: after this long without an event it is complete.
const QUIET: Duration = Duration::from_secs(1);

/// The timeout for reading the history.
const WATCH_SECONDS: u64 = 60;

/// The error of reading the history of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The cluster does not answer.
    #[error("cannot read the cluster's history")]
    Request(#[source] Box<Error>),
    /// The cluster ended the watch with an error.
    #[error("the server ended the watch of its history: {}", .0.message)]
    Ended(Box<Status>),
    /// Versions must be numbers to search among them.
    #[error("the cluster's resourceVersion {0:?} is not a number, so its history cannot be searched")]
    NotANumber(String),
    /// The requested version is no longer retained.
    #[error("version {asked} has expired: the cluster's history starts at version {oldest}")]
    Expired {
        /// The requested version.
        asked: u64,
        /// The oldest retained version.
        oldest: u64,
    },
    /// The cluster has not reached the requested version.
    #[error("version {asked} does not exist yet: the cluster is at version {now}")]
    Later {
        /// The requested version.
        asked: u64,
        /// The version of the most recent list.
        now: u64,
    },
    /// The current list has changes that the watch did not deliver.
    #[error("the server did not send all changes in time; try again")]
    Incomplete,
}

/// Some objects of a cluster.
#[derive(Clone, Debug)]
pub struct LiveObjects {
    api: DynamicApi,
    stream: Arc<Stream>,
    fields: FieldSelector,
}

/// The retained history of some objects.
#[derive(Clone, Debug)]
pub struct Past {
    /// The objects at the oldest version, then every change. Their time is the time of reading.
    pub entries: Vec<Entry>,
    /// The oldest retained version.
    pub from: u64,
}

/// A list at one version.
struct Listed {
    version: u64,
    objects: BTreeMap<ObjectKey, Object>,
}

impl LiveObjects {
    /// The objects of a resource, in a namespace or, if that is empty, in all; only one of them if it is named.
    pub fn new(client: &Client, resource: &Resource, namespace: &str, name: Option<&str>) -> Self {
        let api = client.dynamic(resource.clone());
        let api = api.json_only().keep_managed_fields().namespace(namespace);
        let fields = name.map(|name| format!("metadata.name={name}"));
        let fields = fields.and_then(|fields| fields.parse().ok()).unwrap_or_default();
        Self {
            api,
            stream: Arc::new(Stream::new(resource.clone(), namespace, "", "")),
            fields,
        }
    }

    /// Reads the retained history.
    pub async fn past(&self) -> Result<Past, PastError> {
        let now = self.list(None).await?;
        let mut from = self.oldest(now.version).await?;
        loop {
            match self.since(from, &now).await {
                Err(error) if error.is_expired() && from < now.version => {
                    // Events expire before lists: try the second half.
                    from += (now.version - from).div_ceil(2);
                }
                entries => {
                    return Ok(Past {
                        entries: entries?,
                        from,
                    });
                }
            }
        }
    }

    /// The oldest version at which the server can still list.
    pub async fn start(&self) -> Result<u64, PastError> {
        let now = self.list(None).await?;
        self.oldest(now.version).await
    }

    /// The objects that differ between two versions; the second is now if it is not given.
    pub async fn diff(&self, from: u64, to: Option<u64>) -> Result<Vec<ObjectDiff>, PastError> {
        let now = self.list(None).await?;
        let old = self.list_retained(from, now.version).await?;
        let new = match to {
            Some(to) => self.list_retained(to, now.version).await?,
            None => now,
        };
        let (before, after) = (by_reference(&old.objects), by_reference(&new.objects));
        Ok(differences(&self.stream.resource, &before, &after))
    }

    async fn list_retained(&self, version: u64, now: u64) -> Result<Listed, PastError> {
        // A server would wait for it and time out, and a client would repeat that.
        if version > now {
            return Err(PastError::Later { asked: version, now });
        }
        match self.list(Some(version)).await {
            Err(error) if error.is_expired() => Err(PastError::Expired {
                asked: version,
                oldest: self.oldest(now).await?,
            }),
            listed => listed,
        }
    }

    /// The oldest version at which the server can still list, by bisection.
    async fn oldest(&self, now: u64) -> Result<u64, PastError> {
        let (mut expired, mut retained) = (0, now);
        while retained - expired > 1 {
            let middle = expired + (retained - expired) / 2;
            match self.is_retained(middle).await? {
                true => retained = middle,
                false => expired = middle,
            }
        }
        Ok(retained)
    }

    async fn is_retained(&self, version: u64) -> Result<bool, PastError> {
        let options = ListOptions {
            limit: Some(1),
            ..self.list_options(Some(version))
        };
        match self.api.clone().metadata_only().list().with(&options).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_expired() => Ok(false),
            Err(error) => Err(request_failed(error)),
        }
    }

    fn list_options(&self, at: Option<u64>) -> ListOptions {
        ListOptions {
            field_selector: self.fields.clone(),
            resource_version: at.map(ResourceVersion::from).unwrap_or_default(),
            resource_version_match: at.map(|_| ResourceVersionMatch::Exact),
            ..Default::default()
        }
    }

    async fn list(&self, at: Option<u64>) -> Result<Listed, PastError> {
        let list = self.api.list().with(&self.list_options(at)).await;
        let list = list.map_err(request_failed)?;
        let objects = list.items.into_iter().map(|object| (object.key(), object));
        Ok(Listed {
            version: match at {
                Some(version) => version,
                None => number(list.head.resource_version.as_str())?,
            },
            objects: objects.collect(),
        })
    }

    /// The objects at a version, and the changes up to now.
    async fn since(&self, from: u64, now: &Listed) -> Result<Vec<Entry>, PastError> {
        let before = self.list(Some(from)).await?;
        let mut reading = Reading::begin(self.stream.clone(), before);
        let options = WatchOptions {
            resource_version: from.into(),
            field_selector: self.fields.clone(),
            allow_bookmarks: true,
            timeout_seconds: Some(WATCH_SECONDS),
            ..Default::default()
        };
        let watch = self.api.watch().with(&options).await;
        let mut watch = watch.map_err(request_failed)?;
        while !(self.is_one() && !now.objects.is_empty() && reading.has_reached(now)) {
            let Some(event) = next(&mut watch).await? else {
                break;
            };
            if !reading.take(event, now.version)? {
                break;
            }
        }
        match reading.has_reached(now) {
            true => Ok(reading.entries),
            false => Err(PastError::Incomplete),
        }
    }

    /// True if a single object is requested. If it exists, its version shows whether all of its changes were delivered.
    fn is_one(&self) -> bool {
        !self.fields.to_string().is_empty()
    }
}

async fn next(watch: &mut WatchStream) -> Result<Option<WatchEvent>, PastError> {
    match timeout(QUIET, watch.next()).await {
        Ok(Some(event)) => event.map(Some).map_err(request_failed),
        Ok(None) | Err(_) => Ok(None),
    }
}

/// The entries read so far.
struct Reading {
    stream: Arc<Stream>,
    held: BTreeMap<ObjectKey, Object>,
    entries: Vec<Entry>,
}

impl Reading {
    fn begin(stream: Arc<Stream>, before: Listed) -> Self {
        let mut reading = Self {
            stream,
            held: before.objects.clone(),
            entries: Vec::new(),
        };
        for object in before.objects.into_values() {
            reading.tell(What::Listed(object));
        }
        reading
    }

    fn tell(&mut self, what: What) {
        let version = what.object().map(Object::version);
        self.entries.push(Entry {
            time: watchkeeper_clock::now().into(),
            revision: version.and_then(|version| version.as_str().parse().ok()),
            stream: self.stream.clone(),
            what,
        });
    }

    /// Adds an event; returns false at the end.
    fn take(&mut self, event: WatchEvent, now: u64) -> Result<bool, PastError> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let what = match self.held.insert(object.key(), object.clone()) {
                    Some(previous) => What::Modified { object, previous },
                    None => What::Added(object),
                };
                self.tell(what);
            }
            WatchEvent::Deleted(last) => {
                self.held.remove(&last.key());
                self.tell(What::Deleted {
                    last,
                    inferred: false,
                });
            }
            WatchEvent::Bookmark(object) => return Ok(number(object.resource_version())? < now),
            WatchEvent::Error(status) => return Err(PastError::Ended(Box::new(status))),
            WatchEvent::Undecodable(_) => {}
        }
        Ok(true)
    }

    /// True if every object of the current list was reached at its version or a later one, and no deleted object is
    /// left.
    fn has_reached(&self, now: &Listed) -> bool {
        let is_told = |(key, object): (&ObjectKey, &Object)| {
            let held = self.held.get(key);
            held.is_some_and(|held| held.version() == object.version() || is_later(held, object))
        };
        let has_right = |(key, held): (&ObjectKey, &Object)| {
            let version = number(held.resource_version());
            now.objects.contains_key(key) || version.is_ok_and(|version| version > now.version)
        };
        now.objects.iter().all(is_told) && self.held.iter().all(has_right)
    }
}

fn is_later(held: &Object, object: &Object) -> bool {
    let versions = (number(held.resource_version()), number(object.resource_version()));
    matches!(versions, (Ok(held), Ok(object)) if held > object)
}

fn by_reference(objects: &BTreeMap<ObjectKey, Object>) -> BTreeMap<ObjectKey, &Object> {
    objects
        .iter()
        .map(|(key, object)| (key.clone(), object))
        .collect()
}

fn number(version: &str) -> Result<u64, PastError> {
    version
        .parse()
        .map_err(|_| PastError::NotANumber(version.to_owned()))
}

fn request_failed(error: Error) -> PastError {
    PastError::Request(Box::new(error))
}

impl PastError {
    /// True if the requested history has expired.
    pub fn is_expired(&self) -> bool {
        match self {
            Self::Request(error) => error.is_expired(),
            Self::Ended(status) => status.is_expired(),
            Self::Expired { .. } => true,
            Self::NotANumber(_) | Self::Later { .. } | Self::Incomplete => false,
        }
    }
}
