//! POST of a binding: to a pod's own address, or to the collection of bindings.

use bytes::Bytes;
use http::StatusCode;
use hyper::body::Incoming;
use watchkeeper_meta::CreateOptions;
use watchkeeper_registry::Body;

use super::objects::{body_format, form, write_context};
use crate::body::collect;
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;
use crate::status_bytes;

/// Whether a create is a binding in disguise.
pub(super) fn is_binding(route: &ResourceRoute) -> bool {
    route.resource.resource.group.is_empty() && route.resource.resource.plural == "bindings"
}

/// Binds the pod of the path.
pub(super) async fn bind(call: &Call, route: &ResourceRoute, body: &mut Incoming) -> Result<Answer, Failure> {
    let bytes = collect(&call.head.headers, body).await?;
    create(call, route, bytes).await
}

/// Binds the pod that the path or the body names.
pub(super) async fn create(call: &Call, route: &ResourceRoute, bytes: Bytes) -> Result<Answer, Failure> {
    let form = form(call, Offer::Objects)?;
    let options = CreateOptions::from_query(call.query())?;
    let body = Body {
        format: body_format(call)?,
        bytes: &bytes,
    };
    let context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let bound = call
        .server
        .registry
        .bind(namespace, route.name.as_deref(), body, &context)
        .await?;
    let bytes = status_bytes::encode(&bound, form.accepted.encoding);
    Ok(encoded(StatusCode::CREATED, form.accepted, bytes))
}
