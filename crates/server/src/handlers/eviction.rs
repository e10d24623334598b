//! POST of an eviction: a pod goes if its disruption budget can spare it.

use bytes::Bytes;
use http::StatusCode;
use watchkeeper_meta::CreateOptions;
use watchkeeper_registry::Body;

use super::objects::{body_format, form, write_context};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;
use crate::status_bytes;

pub(super) async fn evict(call: &Call, route: &ResourceRoute, bytes: Bytes) -> Result<Answer, Failure> {
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
    let name = route.name.as_deref().unwrap_or_default();
    let registry = &call.server.registry;
    let evicted = registry.evict(namespace, name, body, &context).await?;
    let bytes = status_bytes::encode(&evicted, form.accepted.encoding);
    Ok(encoded(StatusCode::CREATED, form.accepted, bytes))
}
