//! PATCH of an object or its status, with four patch types.

use bytes::Bytes;
use watchkeeper_meta::{ApplyOptions, PatchOptions};
use watchkeeper_registry::{Part, PatchKind, WriteContext};

use super::objects::{definition, form, is_custom_object, objects_offer, write_context, written_answer};
use crate::filter::Call;
use crate::negotiate::{custom_patch_kind, patch_kind};
use crate::respond::{Answer, Failure, with_warnings};
use crate::route::ResourceRoute;

pub(super) async fn patch(
    call: &Call,
    route: &ResourceRoute,
    part: Part,
    bytes: Bytes,
) -> Result<Answer, Failure> {
    let kind = stated_patch_kind(call, route)?;
    let definition = definition(call, route)?;
    let form = form(call, route, objects_offer(&definition, route))?;
    let context = patch_context(call, kind)?;
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
pub(super) fn stated_patch_kind(call: &Call, route: &ResourceRoute) -> Result<PatchKind, Failure> {
    Ok(match is_custom_object(route) {
        true => custom_patch_kind(call.content_type())?,
        false => patch_kind(call.content_type())?,
    })
}

/// The options of apply: a required field manager, and `force`.
pub(super) fn patch_context(call: &Call, kind: PatchKind) -> Result<WriteContext, Failure> {
    if kind == PatchKind::Apply {
        let options = ApplyOptions::from_query(call.query())?;
        let manager = Some(options.field_manager);
        let mut context = write_context(call, manager, options.dry_run, options.field_validation);
        context.authorize_create = true;
        context.force = options.force;
        return Ok(context);
    }
    let options = PatchOptions::from_query(call.query())?;
    Ok(write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    ))
}
