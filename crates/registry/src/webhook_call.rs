//! Calls webhooks.
//!
//! ```text
//! clientConfig ─▶ WebhookClient: a URL, or a service ─▶ service_address: the address ─▶ transport
//! ```
//!
//! Used for admission and conversion webhooks, which define the content.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use watchkeeper_meta::Status;

use crate::reader::Reader;
use crate::webhook_client::{Destination, WebhookCall, WebhookClient};

impl Reader {
    /// POSTs to a webhook and returns the response body. The inner error is why the webhook could not be called; the
    /// caller decides what follows.
    pub(crate) fn post_to<'a>(
        &'a self,
        webhook: &'a WebhookClient,
        timeout: Duration,
        body: Bytes,
    ) -> BoxFuture<'a, Result<Result<Bytes, String>, Status>> {
        Box::pin(async move {
            let Some(transport) = self.webhook_transport() else {
                return Ok(Err("webhooks are not available".to_owned()));
            };
            let url = webhook.destination.url(timeout);
            let address = match &webhook.destination {
                Destination::Url(_) => None,
                Destination::Service {
                    namespace,
                    name,
                    port,
                    ..
                } => match self.service_address(namespace, name, *port).await? {
                    Ok(address) => Some(address),
                    Err(why) => return Ok(Err(format!("Post {url:?}: {why}"))),
                },
            };
            let call = WebhookCall {
                url: &url,
                address: address.as_deref(),
                authorities: webhook.authorities.as_deref(),
                timeout,
                body,
            };
            Ok(transport.post(call).await.map_err(|error| error.to_string()))
        })
    }
}
