//! PATCH of an object, or of its status, in four kinds.

use bytes::Bytes;
use watchkeeper_meta::{ApplyOptions, PatchOptions};
use watchkeeper_registry::{Part, PatchKind, WriteContext};

use super::objects::{definition, form, is_custom_object, write_context, written_answer};
use crate::filter::Call;
use crate::negotiate::{Offer, PatchType, custom_patch_type, patch_type};
use crate::respond::{Answer, Failure, with_warnings};
use crate::route::ResourceRoute;

pub(super) async fn patch(
    call: &Call,
    route: &ResourceRoute,
    part: Part,
    bytes: Bytes,
) -> Result<Answer, Failure> {
    let patch_type = stated_patch_type(call, route)?;
    let form = form(call, route, Offer::Objects)?;
    let definition = definition(call, route)?;
    let (kind, context) = kind_and_context(call, patch_type)?;
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let name = route.name.as_deref().unwrap_or_default();
    let registry = &call.server.registry;
    let written = registry
        .patch(&definition, namespace, name, part, (kind, &bytes), &context)
        .await;
    let answer = written_answer(&definition, written, form);
    with_warnings(answer, context.warnings.take())
}

/// The kind of the patch.
pub(super) fn stated_patch_type(call: &Call, route: &ResourceRoute) -> Result<PatchType, Failure> {
    Ok(match is_custom_object(route) {
        true => custom_patch_type(call.content_type())?,
        false => patch_type(call.content_type())?,
    })
}

/// Apply has options of its own: it must say who applies, and may take fields by force.
pub(super) fn kind_and_context(
    call: &Call,
    patch_type: PatchType,
) -> Result<(PatchKind, WriteContext), Failure> {
    if patch_type == PatchType::Apply {
        let options = ApplyOptions::from_query(call.query())?;
        let manager = Some(options.field_manager);
        let mut context = write_context(call, manager, options.dry_run, options.field_validation);
        context.asks_to_create = true;
        return Ok((PatchKind::Apply { force: options.force }, context));
    }
    let options = PatchOptions::from_query(call.query())?;
    let context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    let kind = match patch_type {
        PatchType::Json => PatchKind::Json,
        PatchType::Merge => PatchKind::Merge,
        _ => PatchKind::Strategic,
    };
    Ok((kind, context))
}
