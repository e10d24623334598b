//! An embedded, wire-compatible Kubernetes API server.
//!
//! ```text
//! listener ▶ filter ▶ route ▶ handlers ▶ registry ▶ respond
//! ```
//!
//! A request arrives on a connection ([`Connector`] or a TLS socket), passes the filters in one visible order, is
//! routed to its handler, and is answered in the negotiated form. The registry has the semantics; this crate has only
//! HTTP.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use watchkeeper_server::Server;
//!
//! # let directory = tempfile::tempdir()?;
//! # let kubeconfig = directory.path().join("kubeconfig");
//! let server = Server::builder().in_memory().listen("127.0.0.1:0".parse()?).start().await?;
//! server.write_kubeconfig(&kubeconfig)?; // for kubectl and any other client: TLS, and a token
//! println!("ready at https://{}", server.address().expect("it listens"));
//!
//! let connection = server.connector().connect().await?; // HTTP without a socket, from this process
//! # drop(connection);
//! server.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! In a test, `watchkeeper-testing` starts one with a client.

mod access_log;
mod activity;
mod aggregation;
mod aggregation_controller;
mod audit;
mod authenticate;
mod authorize;
mod body;
mod catalog;
mod certificate_names;
mod certificate_subject;
mod certificates;
mod connection;
mod connector;
mod deadline;
mod der;
mod discovery;
mod encryption;
pub mod faults;
mod filter;
mod flow_control;
mod forms;
mod front_proxy;
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod hangup;
mod head_guard;
mod health;
mod host;
mod identity;
mod identity_files;
mod impersonate;
#[cfg(feature = "kube")]
mod kube_client;
mod kubeconfig;
pub mod limits;
mod line;
mod listener;
mod metrics;
pub mod negotiate;
mod open_requests;
mod openapi;
mod outgoing;
mod pretty;
mod request_info;
mod respond;
mod route;
mod server;
mod service_account_keys;
mod shared;
mod stall_guard;
mod status_bytes;
mod stream;
mod tls;
mod tokens;
mod unwritten;
mod verb;
mod version;
mod webhooks;
mod write_log;

pub use activity::Activity;
pub use audit::{AuditError, AuditLogOptions, AuditOptions, AuditPolicyError};
pub use catalog::{ApiGroup, ApiVersion, Catalog, ServedResource};
pub use certificates::{CertificateError, ClientCertificate, ServingCertificate};
pub use connector::Connector;
pub use encryption::EncryptionError;
pub use faults::{Action, Cut, Faults, Fired, Flow, RequestMatch, Rule, RuleId, Stale, TooManyFaults};
pub use front_proxy::FrontProxy;
pub use health::HealthProbe;
pub use identity_files::{IdentityFileError, IdentityFiles, ServingFiles};
pub use line::{Line, Reach};
pub use request_info::{RequestInfo, ResourceInfo};
pub use route::{Refusal, ResourceRoute, Route};
pub use server::{Builder, Handle, Server, StartError};
pub use tokens::{Token, TokenFileError, Tokens};
pub use verb::Verb;
pub use version::KUBERNETES_VERSION;
pub use watchkeeper_registry::{FeatureGateError, FeatureGates, User};
#[cfg(feature = "etcd")]
pub use watchkeeper_storage::EtcdOptions;
pub use write_log::{Answering, FieldChange, Observed, Outcome, Write, Writes};

/// Runs the program of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
