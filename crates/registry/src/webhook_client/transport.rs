//! The transport to webhooks. A server provides it: a registry has no network.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// A webhook request.
#[derive(Debug)]
pub struct WebhookCall<'c> {
    /// `https://host:port/path?timeout=10s`. The certificate must be valid for the host.
    pub url: &'c str,
    /// The address to connect to, if it differs from that of the URL: `10.1.2.3:8443`.
    pub address: Option<&'c str>,
    /// The certificate authorities, PEM; `None` for those of the operating system.
    pub authorities: Option<&'c [u8]>,
    /// The time limit of the whole request.
    pub timeout: Duration,
    /// The review, as JSON.
    pub body: Bytes,
}

/// Sends reviews to webhooks.
pub trait WebhookTransport: fmt::Debug + Send + Sync {
    /// Sends a POST and returns the response body. The error text is shown to the user.
    fn post<'c>(
        &'c self,
        call: WebhookCall<'c>,
    ) -> BoxFuture<'c, Result<Bytes, Box<dyn Error + Send + Sync>>>;
}
