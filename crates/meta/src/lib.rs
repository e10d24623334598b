//! The types all Kubernetes objects and requests have in common.
//!
//! This crate is pure: it opens no socket, reads no clock and knows no encoding. It defines names and versions
//! ([`GroupVersionKind`], [`ObjectKey`], [`ResourceVersion`], [`Header`]), errors ([`Status`], [`FieldError`]),
//! options per verb ([`ListOptions`] …), selectors ([`LabelSelector`], [`FieldSelector`]) and the requests built from
//! them ([`CollectionRequests`], [`ObjectRequests`]). A client writes options into a request; a server reads the same
//! options back.
//!
//! ```
//! use watchkeeper_meta::{CollectionRequests, LabelSelector, ListOptions, Resource};
//!
//! let selector: LabelSelector = "app in (web, api), !canary".parse()?;
//! assert!(selector.matches(&[("app", "web")][..]));
//!
//! let pods = Resource::namespaced("", "v1", "Pod", "pods");
//! let options = ListOptions { label_selector: selector, limit: Some(500), ..ListOptions::default() };
//! let request = CollectionRequests::in_namespace(&pods, "default").list(&options)?;
//! assert_eq!(request.uri().path(), "/api/v1/namespaces/default/pods");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod age;
mod api_resource;
mod error_chain;
mod event;
mod field_error;
mod field_selector;
mod header;
mod kind;
mod label_selector;
mod list_meta;
mod metrics;
mod object_key;
mod object_meta;
mod options;
mod quote;
mod request;
mod resource_version;
mod shard_selector;
mod status;
mod time;
pub mod validation;

pub use age::human_duration;
pub use api_resource::{ApiResource, ApiSubresource};
pub use error_chain::error_chain;
pub use event::WatchEventKind;
pub use field_error::{
    BadValue, FieldError, FieldErrorKind, FieldErrors, FieldPath, MAX_FIELD_ERROR_BYTES, MAX_FIELD_ERRORS,
    join_field_errors,
};
pub use field_selector::{FieldOperator, FieldRequirement, FieldSelector};
pub use header::{Header, OwnerReference};
pub use kind::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ParseGroupVersionError,
    Resource, Scope,
};
pub use label_selector::{LabelRequirement, LabelSelector, LabelTest, Labels, SelectorError};
pub use list_meta::ListMeta;
pub use metrics::{
    Bounds, Collect, Histogram, METRICS_CONTENT_TYPE, MetricKind, MetricsText, REQUEST_DURATIONS,
};
pub use object_key::ObjectKey;
pub use object_meta::ObjectMeta;
pub use options::{
    ApplyOptions, AttachOptions, CreateOptions, DeleteOptions, ExecOptions, FieldValidation, GetOptions,
    ListOptions, LogOptions, MAX_FIELD_MANAGER, PatchOptions, PortForwardOptions, Preconditions,
    PropagationPolicy, QueryParams, QueryWriter, ResourceVersionMatch, UpdateOptions, WatchOptions,
    asks_to_watch, field_manager_from_user_agent,
};
pub use quote::{go_json, quote};
pub use request::{CollectionRequests, ObjectRequests, PatchKind, Payload, RequestError, accept};
pub use resource_version::{ParseResourceVersionError, ResourceVersion};
pub use shard_selector::{MAX_SHARD_RANGES, ShardField, ShardSelector, ShardSelectorError, shard_hash};
pub use status::{AccessDenied, Outcome, Status, StatusCause, StatusDetails, StatusReason};
pub use time::{ParseTimeError, Time};
