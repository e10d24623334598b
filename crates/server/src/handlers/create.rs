//! POST of an object.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;

use super::objects::{definition, form, object_answer, posted};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, with_warnings};
use crate::route::ResourceRoute;

pub(super) fn create<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let form = form(call, route, Offer::Objects)?;
        let definition = definition(call, route)?;
        let (body, context) = posted(call, route, &bytes)?;
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let created = call
            .server
            .registry
            .create(&definition, namespace, body, &context)
            .await;
        let answer = match created {
            Ok(object) => object_answer(StatusCode::CREATED, &definition, &object, form),
            Err(status) => Err(status.into()),
        };
        with_warnings(answer, context.warnings.take())
    })
}
