//! POST of an eviction: deletes a pod if its disruption budget permits it.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;

use super::objects::{form, posted};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;
use crate::status_bytes;

pub(super) fn evict<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let form = form(call, route, Offer::Objects)?;
        let (body, context) = posted(call, route, &bytes)?;
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let name = route.name.as_deref().unwrap_or_default();
        let registry = &call.server.registry;
        let evicted = registry.evict(namespace, name, body, context).await?;
        let bytes = status_bytes::encode(&evicted, form.accepted.format);
        Ok(encoded(StatusCode::CREATED, form.accepted, bytes))
    })
}
