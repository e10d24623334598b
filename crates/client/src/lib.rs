//! A Kubernetes client: REST, typed, dynamic, metadata and discovery APIs and watch streams on one core.
//!
//! ```text
//! config ▶ auth ▶ transport ▶ client ▶ api (typed · dynamic · metadata) ▶ list · watch
//! ```
//! Making a client opens no connection. All requests share HTTP/2 connections, one rate limit and one identity;
//! objects stay bytes until somebody decodes them. Nothing is cached here.

mod auth;
mod client;
pub mod config;
mod conflict;
pub mod discovery;
mod dynamic;
mod error;
mod list;
mod pager;
mod pod_stream;
mod rate_limit;
mod retry;
mod secret;
mod tls;
mod trace;
mod transport;
mod typed;
mod warning;
mod watch;
mod websocket;

pub use auth::AuthError;
pub use client::{Client, ClientOptions, SendOptions, WarningHandler};
pub use config::{Config, ConfigError, LoadOptions};
pub use conflict::retry_on_conflict;
pub use discovery::{Discovery, DiscoveryClient, DiscoveryOptions, ServerVersion};
pub use dynamic::{DynamicApi, IntoPayload, ObjectOrStatus};
pub use error::{Error, ErrorKind};
pub use list::{ListItem, ListStream, ObjectList, Undecodable};
pub use pager::{PAGE_SIZE, Pager};
pub use pod_stream::{PodEnd, PodOutput, PodReader, PodWriter};
pub use rate_limit::RateLimit;
pub use secret::Secret;
pub use transport::{Body, BodyError, InProcess, Io, TransportError};
pub use typed::{Api, List, ResourceType};
pub use warning::Warning;
pub use watch::{WatchEvent, WatchStream};
