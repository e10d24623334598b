//! POST of an object.

use bytes::Bytes;
use http::StatusCode;

use super::objects::{definition, form, object_answer, posted};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, with_warnings};
use crate::route::ResourceRoute;

pub(super) async fn create(call: &Call, route: &ResourceRoute, bytes: Bytes) -> Result<Answer, Failure> {
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
}
