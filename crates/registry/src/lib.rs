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
//! - formats inside the volume sources of vendors, beyond the fields they require; which fields pods on Windows may not
//!   have; pod certificate requests;
//! - derived attributes of devices;
//! - what a request for a certificate asks for: none is refused because it would make its owner an administrator;
//! - what policies leave out is said in `admission::policies`, what webhooks do not see in `admission::webhooks`;
//! - how a list or map is merged that stands directly in another list or map of a custom kind: as a whole;
//! - alpha kinds, which are not served.
//!
//! Of what a new cluster has by itself there are the namespaces, the `kubernetes` service with its range and endpoints,
//! the priority classes, the roles for people, flow schemas and priority levels; not the roles of components that are not
//! there.

mod admission;
mod allocate;
mod api_services;
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
mod import;
mod list;
mod metadata;
mod object;
mod rbac;
mod read_version;
mod reader;
mod registry;
mod selection;
mod service_address;
mod subresources;
mod table;
mod watch;
mod watch_cache;
mod webhook_call;
mod webhook_client;
mod write;

pub use api_services::{Changes, Registration};
pub use body::{Body, Format, JSON, PROTOBUF, YAML, too_many_values};
pub use bootstrap::{AnnouncedProxy, Announcement};
pub use catalog::builtin_definition;
pub use clock::Clock;
pub use context::{Emptied, WriteContext};
pub use definition::Definition;
pub use import::{ImportError, Imported, key_of, prefix_of, stored_form};
pub use list::List;
pub use object::StoredObject;
pub use rbac::{Action, Decision, Rule, Rules};
pub use reader::Reader;
pub use registry::{Registry, RegistryOptions};
pub use service_address::NoAddress;
pub use subresources::TokenIssuer;
pub use table::{IncludeObject, TablePrinter, partial, scale_table};
pub use watch::{Event, Watch, WatchItem};
pub use watchkeeper_kinds::{Part, User, Warnings, user};
pub use watchkeeper_meta::PatchKind;
pub use webhook_client::{WebhookCall, WebhookTransport};
pub use write::{Deletion, Written};
