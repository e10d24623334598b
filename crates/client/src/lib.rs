//! A Kubernetes client: configuration, authentication, HTTP/2 transport, requests.
//!
//! ```text
//! config ▶ auth ▶ transport ▶ client
//! ```

mod auth;
mod client;
pub mod config;
mod error;
mod rate_limit;
mod retry;
mod secret;
mod tls;
mod trace;
mod transport;
mod warning;

pub use auth::AuthError;
pub use client::{Client, ClientOptions, SendOptions, WarningHandler};
pub use config::{Config, ConfigError, LoadOptions};
pub use error::{Error, ErrorKind};
pub use rate_limit::RateLimit;
pub use secret::Secret;
pub use transport::{Body, BodyError, InProcess, Io, TransportError};
pub use warning::Warning;
