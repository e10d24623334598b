//! The semantics of reads, writes and watches of a Kubernetes API server.
//!
//! [`Registry`] takes a verb with a resource, a name, options and a body, and returns stored objects, a page of them,
//! a watch, or a [`Status`](watchkeeper_meta::Status). It knows no HTTP, and no encoding but the stored one; the
//! server above does, and provides access to webhooks ([`WebhookTransport`]). Its only state besides the store is a
//! history per watched resource, the allocated service addresses, and compiled policies, webhooks and custom kinds.
//!
//! ```
//! use watchkeeper_meta::GroupVersionResource;
//! use watchkeeper_registry::{Body, Format, Registry, WriteContext};
//! use watchkeeper_storage::{Store, StoreOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::open(Store::memory(StoreOptions::default())).await?;
//! let config_maps = GroupVersionResource::new("", "v1", "configmaps");
//! let config_maps = registry.definition(&config_maps).ok_or("not served")?;
//! let body = |bytes| Body { format: Format::Json, bytes };
//!
//! let settings = body(br#"{"metadata": {"name": "settings"}, "data": {"colour": "green"}}"#);
//! let created = registry.create(&config_maps, "default", settings, &WriteContext::default()).await?;
//! assert_eq!(created.to_value(&config_maps)?["data"]["colour"], "green");
//!
//! let wrong = body(br#"{"metadata": {"name": "Settings"}}"#);
//! let refused = registry.create(&config_maps, "default", wrong, &WriteContext::default()).await;
//! assert!(refused.unwrap_err().message.contains("metadata.name: Invalid value: \"Settings\""));
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! Objects of built-in kinds are validated by the rules of Kubernetes 1.37, with its error texts
//! ([`watchkeeper_kinds`]). Fields of features that are off by default are dropped, as in Kubernetes; only those of
//! resource slices are validated and kept. Not implemented:
//!
//! - in issued pod certificates, mail addresses with comments, quotes or display names: they are refused. The errors of
//!   a request that cannot be read, or whose key has not signed it, have texts of their own; no recording shows them;
//! - the parameter `drop=metadata.managedFields` of `Accept`: Kubernetes has it behind a feature gate that is off by
//!   default and newer than 1.37. It is ignored, as in Kubernetes without the gate;
//! - alpha kinds, which are not served.
//!
//! A new cluster has the namespaces, the `kubernetes` service with its CIDR and endpoints, the priority classes, roles
//! and bindings, flow schemas and priority levels. The roles of Kubernetes components exist if the server has a port.
//! No recording shows the rules of the default roles, except those of discovery; they follow Kubernetes 1.37
//! (`rbac::defaults`).

mod admission;
mod allocate;
mod api_services;
mod audit_annotations;
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
mod feature_gates;
mod followed;
mod import;
mod list;
mod metadata;
mod metrics;
mod object;
mod rbac;
mod read_version;
mod reader;
mod registry;
mod selection;
mod service_address;
mod shared_part;
mod subresources;
mod table;
mod values;
mod watch;
mod watch_cache;
mod webhook_call;
mod webhook_client;
mod write;

pub use api_services::{Changes, Registration};
pub use audit_annotations::AuditAnnotations;
pub use body::{Body, Format, JSON, PROTOBUF, YAML, too_many_values};
pub use bootstrap::{AnnouncedProxy, Announcement};
pub use catalog::builtin_definition;
pub use clock::Clock;
pub use context::{Emptied, WriteContext};
pub use definition::Definition;
pub use feature_gates::{FeatureGateError, FeatureGates};
pub use import::{ImportError, Imported, key_of, prefix_of, stored_form};
pub use list::List;
pub use object::StoredObject;
pub use rbac::{Attributes, Decision, Rule, Rules};
pub use reader::Reader;
pub use registry::{Registry, RegistryOptions};
pub use service_address::NoAddress;
pub use shared_part::shared_part;
pub use subresources::TokenIssuer;
pub use table::{IncludeObject, TablePrinter, partial, scale_table};
pub use watch::{Event, Watch, WatchItem};
pub use watchkeeper_kinds::{Part, User, Warnings, user};
pub use watchkeeper_meta::PatchKind;
pub use webhook_client::{WebhookCall, WebhookTransport};
pub use write::{Deletion, Written};
