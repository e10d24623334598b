//! A Kubernetes client: REST, typed, dynamic, metadata and discovery APIs and watch streams on one core.
//!
//! ```text
//! config ▶ auth ▶ transport ▶ client ▶ api (typed · dynamic · metadata) ▶ list · watch
//! ```
//! Creating a client opens no connection. Requests share HTTP/2 connections, one rate limit and one identity; to a
//! server on this machine, a single request uses its own HTTP/1.1 connection. Objects stay bytes until they are
//! decoded. Nothing is cached here.
//!
//! ```no_run
//! use serde_json::json;
//! use watchkeeper_client::{Client, WatchEvent};
//! use watchkeeper_meta::Resource;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from_environment()?; // the cluster that kubectl would use
//!
//! let config_maps = client.dynamic(Resource::namespaced("", "v1", "ConfigMap", "configmaps"));
//! let mut watch = config_maps.watch().await?;
//! let settings = json!({"metadata": {"name": "settings"}, "data": {"colour": "green"}});
//! config_maps.clone().namespace("default").create(&settings).await?;
//! while let Some(event) = watch.next().await {
//!     if let WatchEvent::Added(object) = event? {
//!         println!("{} is {}", object.name(), object.to_value()?["data"]["colour"]);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A server in the same process is reached over an in-memory pipe, with the same bytes as over a socket
//! ([`InProcess`]).

mod auth;
mod call;
mod client;
pub mod config;
mod conflict;
pub mod discovery;
mod dynamic;
mod error;
mod install;
#[cfg(feature = "k8s-openapi")]
mod known_scope;
#[cfg(feature = "kube")]
mod kube_types;
mod learnt;
mod list;
mod manifest;
mod metrics;
mod nulls;
mod pager;
mod pod_stream;
mod port_forward;
mod rate_limit;
mod retry;
mod secret;
mod subresources;
mod tls;
mod trace;
mod transport;
mod typed;
mod warning;
mod watch;
mod websocket;
mod write;

pub use auth::AuthError;
pub use call::Call;
pub use client::{Client, ClientOptions, SendOptions, WarningHandler};
pub use config::{Config, ConfigError, LoadOptions};
pub use conflict::retry_on_conflict;
pub use discovery::{Discovery, DiscoveryClient, DiscoveryOptions, ServerVersion};
pub use dynamic::{DynamicApi, IntoPayload, ObjectOrStatus};
pub use error::{Error, ErrorKind};
pub use install::{InstallError, InstallOptions, install_crds};
pub use learnt::STREAMING_PAUSE;
pub use list::{ListItem, ListStream, ObjectList, Undecodable};
pub use manifest::{Applied, ApplyOutcome, Manifest, ManifestError, Place};
pub use metrics::RequestMetrics;
pub use pager::{PAGE_SIZE, Pager};
pub use pod_stream::{PodEnd, PodOutput, PodReader, PodWriter};
pub use port_forward::ForwardedPort;
pub use rate_limit::RateLimit;
pub use secret::Secret;
pub use subresources::{Scale, Token, TokenOptions};
pub use transport::{Body, BodyError, InProcess, Io, TransportError};
pub use typed::{Api, Identity, List, ListIntoIter, ListIter, Owner, ResourceType, TypedStream};
pub use warning::Warning;
pub use watch::{WatchEvent, WatchStream};
pub use write::{Write, WriteEffect, WriteObserver};
