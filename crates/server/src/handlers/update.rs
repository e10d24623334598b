//! PUT of an object, or of its status.

use bytes::Bytes;
use http::StatusCode;
use watchkeeper_meta::UpdateOptions;
use watchkeeper_registry::{Body, Part};

use super::objects::{body_format, definition, form, object_answer, warned, write_context};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure};
use crate::route::ResourceRoute;

pub(super) async fn update(
    call: &Call,
    route: &ResourceRoute,
    part: Part,
    bytes: Bytes,
) -> Result<Answer, Failure> {
    let form = form(call, Offer::Objects)?;
    let definition = definition(call, route)?;
    let options = UpdateOptions::from_query(call.query())?;
    let format = body_format(call)?;
    let context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let name = route.name.as_deref().unwrap_or_default();
    let body = Body {
        format,
        bytes: &bytes,
    };
    let registry = &call.server.registry;
    let written = registry
        .update(&definition, namespace, name, part, body, &context)
        .await?;
    let code = match written.created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let answer = object_answer(code, &definition, &written.object, form)?;
    Ok(warned(answer, &context))
}
