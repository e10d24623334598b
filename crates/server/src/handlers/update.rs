//! PUT of an object, or of its status.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use watchkeeper_registry::Part;

use super::objects::{definition, form, objects_offer, put, written_answer};
use crate::filter::Call;
use crate::respond::{Answer, Failure, with_warnings};
use crate::route::ResourceRoute;

pub(super) fn update<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    part: Part,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let definition = definition(call, route)?;
        let form = form(call, route, objects_offer(&definition, route))?;
        let (body, context) = put(call, route, &bytes)?;
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let name = route.name.as_deref().unwrap_or_default();
        let registry = &call.server.registry;
        let written = registry
            .update(&definition, namespace, name, part, body, &context)
            .await;
        let answer = written_answer(&definition, written, form);
        with_warnings(answer, context.warnings.take())
    })
}
