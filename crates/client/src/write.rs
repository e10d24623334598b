//! Acknowledged writes, reported to caches of the same objects.
//!
//! A cache that follows a watch lags behind the server. With the version of each own write, its user knows when the
//! cache has caught up.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use watchkeeper_meta::{ObjectKey, Resource, ResourceVersion, Status};
use watchkeeper_wire::Object;

/// Receives the writes of a client ([`Client::observing_writes`](crate::Client::observing_writes)), on the task that
/// made them.
pub type WriteObserver = Arc<dyn Fn(&Write<'_>) + Send + Sync>;

/// A write that the server has acknowledged.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The key of the object.
    pub key: ObjectKey,
    /// The uid of the object; empty if the answer does not have it.
    pub uid: &'a str,
    /// The effect.
    pub effect: WriteEffect,
    /// The object in the answer; `None` if it is a `Status`.
    pub object: Option<&'a Object>,
}

/// The effect of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteEffect {
    /// The object has this version.
    Stored(ResourceVersion),
    /// The object is deleted, or waits for its finalizers or its grace period.
    Deleted,
}

/// True if a request writes.
pub(crate) fn is_write(request: &Request<Bytes>) -> bool {
    let dry_run = |query: &str| query.split('&').any(|pair| pair.starts_with("dryRun="));
    request.method() != Method::GET && !request.uri().query().is_some_and(dry_run)
}

impl<'a> Write<'a> {
    /// The write that an answer with an object acknowledges. `None` for subresources that are not a view of their
    /// object, such as tokens.
    pub(crate) fn acknowledged(resource: &'a Resource, method: &Method, object: &'a Object) -> Option<Self> {
        let effect = match *method == Method::DELETE {
            true => WriteEffect::Deleted,
            false => WriteEffect::Stored(object.version()),
        };
        let is_view = effect == WriteEffect::Deleted || !object.version().is_unset();
        is_view.then(|| Self::of(resource, object, effect))
    }

    /// The delete that a `Status` acknowledges.
    pub(crate) fn deleted(resource: &'a Resource, namespace: &str, status: &'a Status) -> Option<Self> {
        let details = status.details.as_ref()?;
        Some(Self {
            resource,
            key: ObjectKey::new(namespace, &details.name),
            uid: &details.uid,
            effect: WriteEffect::Deleted,
            object: None,
        })
    }

    pub(crate) fn of(resource: &'a Resource, object: &'a Object, effect: WriteEffect) -> Self {
        Self {
            resource,
            key: object.key(),
            uid: object.uid(),
            effect,
            object: Some(object),
        }
    }
}
