//! What a read, a write and a watch mean to a Kubernetes API server.
//!
//! [`Registry`] takes verbs with a resource, a name, options and a body, and answers with stored objects, a page of
//! them, a watch, or a [`Status`](watchkeeper_meta::Status). It knows neither HTTP nor encodings beyond the one it
//! stores; a server above it does, and knows the way to webhooks ([`WebhookTransport`]). It keeps no state but the
//! store's, a history per watched resource, the addresses of services that are given out, and what policies, webhooks
//! and the definitions of custom kinds were compiled into.
//!
//! # What is not checked
//!
//! Objects of the built-in kinds are held to the rules of Kubernetes 1.37, in its words ([`watchkeeper_kinds`]). Left out
//! are:
//!
//! - formats inside the volume sources of vendors, beyond the fields they require; what only pods on Windows have;
//!   projections of trust bundles and pod certificates; pod certificate requests;
//! - steps of capacity ranges and derived attributes of devices; `overhead` and `tolerations` of runtime classes;
//! - how far the affinity of a gated pod may change: all of it may;
//! - what a request for a certificate asks for: none is refused because it would make its owner an administrator;
//! - what policies leave out is said in `admission::policies`, what webhooks do not see in `admission::webhooks`;
//! - how a list or map is merged that stands directly in another list or map of a custom kind: as a whole;
//! - the metadata of objects within custom objects, beyond the types of its fields;
//! - alpha kinds, which are not served.
//!
//! Of what a new cluster has by itself there are the namespaces, the `kubernetes` service with its range and endpoints,
//! the priority classes, the roles for people, flow schemas and priority levels; not the roles of components that are not
//! there. Requests are not queued by priority levels.

mod admission;
mod allocate;
mod body;
mod bootstrap;
mod catalog;
mod clock;
mod context;
mod continue_token;
mod conversion;
mod converter;
mod custom;
mod definition;
pub mod encode;
mod followed;
mod list;
mod metadata;
mod object;
mod rbac;
mod read_version;
mod reader;
mod registry;
mod selection;
mod subresources;
mod table;
mod watch;
mod watch_cache;
mod webhook_call;
mod webhook_client;
mod write;

pub use body::{Body, Format, JSON, PROTOBUF, YAML, too_many_values};
pub use bootstrap::Announcement;
pub use catalog::builtin_definition;
pub use clock::Clock;
pub use context::{Emptied, WriteContext};
pub use definition::Definition;
pub use list::List;
pub use object::StoredObject;
pub use rbac::{Action, Decision, Rule, Rules};
pub use reader::Reader;
pub use registry::{Registry, RegistryOptions};
pub use subresources::TokenIssuer;
pub use table::{IncludeObject, TablePrinter, partial, scale_table};
pub use watch::{Event, Watch, WatchItem};
pub use watchkeeper_kinds::{Part, User, Warnings, user};
pub use watchkeeper_meta::PatchKind;
pub use webhook_client::{WebhookCall, WebhookTransport};
pub use write::{Deletion, Written};
