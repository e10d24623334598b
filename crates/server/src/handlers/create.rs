//! POST of an object.

use bytes::Bytes;
use http::StatusCode;
use watchkeeper_meta::CreateOptions;
use watchkeeper_registry::Body;

use super::objects::{body_format, definition, form, object_answer, write_context};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, with_warnings};
use crate::route::ResourceRoute;

pub(super) async fn create(call: &Call, route: &ResourceRoute, bytes: Bytes) -> Result<Answer, Failure> {
    let form = form(call, Offer::Objects)?;
    let definition = definition(call, route)?;
    let options = CreateOptions::from_query(call.query())?;
    let format = body_format(call)?;
    let context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let body = Body {
        format,
        bytes: &bytes,
    };
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
