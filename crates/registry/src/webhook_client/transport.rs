//! The way to a webhook. Somebody else must know it: a registry has no network.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

/// What is to be sent, and where.
#[derive(Debug)]
pub struct WebhookCall<'c> {
    /// `https://host:port/path?timeout=10s`. The certificate must be the host's.
    pub url: &'c str,
    /// Where to connect, if not to the host and the port of the URL: `10.1.2.3:8443`.
    pub address: Option<&'c str>,
    /// The authorities that may have signed the certificate, PEM; `None` for those that the system trusts.
    pub authorities: Option<&'c [u8]>,
    /// How long all of it may take.
    pub timeout: Duration,
    /// The review, as JSON.
    pub body: Bytes,
}

/// Carries reviews to webhooks.
pub trait WebhookTransport: fmt::Debug + Send + Sync {
    /// The body of the answer to a POST. An error says all that a reader of the refusal needs.
    fn post<'c>(
        &'c self,
        call: WebhookCall<'c>,
    ) -> BoxFuture<'c, Result<Bytes, Box<dyn Error + Send + Sync>>>;
}
