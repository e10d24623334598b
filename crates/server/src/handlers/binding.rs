//! POST of a binding: to a pod's `binding` subresource, or to the collection of bindings.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;

use super::objects::{form, posted};
use crate::body::RequestBody;
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;
use crate::status_bytes;

/// True if a create is a binding.
pub(super) fn is_binding(route: &ResourceRoute) -> bool {
    route.resource.resource.group.is_empty() && route.resource.resource.plural == "bindings"
}

/// Binds the pod of the path.
pub(super) fn bind<'a>(
    call: &'a mut Call,
    route: &'a ResourceRoute,
    body: &'a mut RequestBody,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let bytes = super::read_body(call, body).await?;
        create(call, route, bytes).await
    })
}

/// Binds the pod that the path or the body names.
pub(super) fn create<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let form = form(call, route, Offer::Objects)?;
        let (body, context) = posted(call, route, &bytes)?;
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let bound = call
            .server
            .registry
            .bind(namespace, route.name.as_deref(), body, &context)
            .await?;
        let bytes = status_bytes::encode(&bound, form.accepted.format);
        Ok(encoded(StatusCode::CREATED, form.accepted, bytes))
    })
}
