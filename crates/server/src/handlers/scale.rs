//! The scale subresource of a workload: shows and sets only its replica count.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;

use super::objects::{definition, form, put};
use super::patch::{patch_context, stated_patch_kind};
use crate::Verb;
use crate::filter::Call;
use crate::forms;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded, with_warnings};
use crate::route::ResourceRoute;

/// `GET`, `PUT` and `PATCH` of `…/scale`.
pub(super) fn scale<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        // The Scale of a custom kind has no Table columns.
        let offer = match route.resource.is_custom() {
            true => Offer::Virtual,
            false => Offer::Objects,
        };
        let form = form(call, route, offer)?;
        let definition = definition(call, route)?;
        let registry = &call.server.registry;
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let name = route.name.as_deref().unwrap_or_default();
        let (scale, warnings) = match route.verb {
            Verb::Get => (registry.scale(&definition, namespace, name).await, Vec::new()),
            Verb::Update => {
                let (body, context) = put(call, route, &bytes)?;
                let updated = registry.update_scale(&definition, namespace, name, body, &context);
                (updated.await, context.warnings.take())
            }
            _ => {
                let kind = stated_patch_kind(call, route)?;
                let context = patch_context(call, kind)?;
                let patched = registry.patch_scale(&definition, namespace, name, (kind, &bytes), &context);
                (patched.await, context.warnings.take())
            }
        };
        let answer = scale
            .and_then(|scale| forms::scale(&scale, form))
            .map(|bytes| encoded(StatusCode::OK, form.accepted, bytes))
            .map_err(Failure::from);
        with_warnings(answer, warnings)
    })
}
