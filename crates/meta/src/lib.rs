//! What every Kubernetes object and request has in common.
//!
//! This crate is pure: it opens no socket, reads no clock and knows no encoding. It gives names to things
//! ([`GroupVersionKind`], [`ObjectKey`], [`ResourceVersion`], [`Header`]) that the other crates pass around.

mod event;
mod header;
mod kind;
mod object_key;
mod resource_version;
mod time;

pub use event::WatchEventKind;
pub use header::{Header, OwnerReference};
pub use kind::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ParseGroupVersionError,
    Resource, Scope,
};
pub use object_key::ObjectKey;
pub use resource_version::ResourceVersion;
pub use time::{ParseTimeError, Time};
