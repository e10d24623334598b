//! What a read, a write and a watch mean to a Kubernetes API server.
//!
//! [`Registry`] takes verbs with a resource, a name, options and a body, and answers with stored objects, a page of
//! them, a watch, or a [`Status`](watchkeeper_meta::Status). It knows neither HTTP nor encodings beyond the one it
//! stores; a server above it does. It keeps no state but the store's and a history per watched resource.

mod admission;
mod allocate;
mod body;
mod bootstrap;
mod claim_templates;
mod clock;
mod continue_token;
mod create;
mod definition;
mod delete;
pub mod encode;
mod fields;
mod kinds;
mod list;
mod metadata;
mod names;
mod object;
mod patch;
mod rbac;
mod read_version;
mod registry;
mod selection;
mod strategy;
mod subresources;
mod table;
mod update;
pub mod user;
mod versions;
mod watch;
mod watch_cache;
mod write;

pub use body::{Body, Format};
pub use clock::Clock;
pub use definition::Definition;
pub use delete::Deletion;
pub use list::List;
pub use object::StoredObject;
pub use patch::PatchKind;
pub use rbac::{Action, Decision, Rule, Rules};
pub use registry::{Registry, RegistryOptions};
pub use strategy::Strategy;
pub use subresources::TokenIssuer;
pub use table::{IncludeObject, TablePrinter};
pub use update::{Part, Written};
pub use user::User;
pub use watch::{Event, Watch, WatchItem};
pub use write::{Warnings, WriteContext};
