//! Shared by the handlers of the resource API: the resource's definition, the negotiated form, and the encoding of
//! objects and lists.

use std::sync::Arc;

use http::StatusCode;
use watchkeeper_meta::{CreateOptions, FieldValidation, Status, UpdateOptions, quote};
use watchkeeper_registry::{
    Body, Definition, Format, IncludeObject, List, Part, StoredObject, WriteContext, Written,
};

use crate::filter::Call;
use crate::forms::{self, Form};
use crate::negotiate::{
    Accepted, Offer, Transform, accept, accept_custom, content_type, custom_content_type,
};
use crate::request_info::query_value;
use crate::respond::{Answer, Failure, encoded, in_pieces};
use crate::route::ResourceRoute;

/// The resource of a request, as the registry knows it.
pub(super) fn definition(call: &Call, route: &ResourceRoute) -> Result<Arc<Definition>, Failure> {
    let resource = route.resource.resource.group_version_resource();
    let known = call.server.registry.definition(&resource);
    known.ok_or_else(|| Status::path_not_found().into())
}

/// The forms an object, or a part of it, can be sent in.
pub(super) fn objects_offer(definition: &Definition, route: &ResourceRoute) -> Offer {
    let part = route.subresource.as_ref();
    match part.is_some_and(|part| part.name == Part::Status.subresource())
        && definition.kind.status_without_table
    {
        true => Offer::Virtual,
        false => Offer::Objects,
    }
}

/// The negotiated form of a response about a resource's objects.
pub(super) fn form(call: &Call, route: &ResourceRoute, offer: Offer) -> Result<Form, Failure> {
    let accepted = match route.resource.is_custom() {
        true => accept_custom(&call.accept(), offer)?,
        false => accept(&call.accept(), offer)?,
    };
    Ok(Form {
        accepted: Accepted {
            pretty: accepted.pretty || call.pretty,
            ..accepted
        },
        include: include_object(call, accepted.transform)?,
        clock: call.server.registry.clock(),
    })
}

/// The `includeObject` parameter of a Table; ignored for other forms.
fn include_object(call: &Call, transform: Transform) -> Result<IncludeObject, Failure> {
    match query_value(call.query(), "includeObject").as_deref() {
        _ if !matches!(transform, Transform::Table(_)) => Ok(IncludeObject::Metadata),
        None | Some("" | "Metadata") => Ok(IncludeObject::Metadata),
        Some("None") => Ok(IncludeObject::None),
        Some("Object") => Ok(IncludeObject::Object),
        Some(word) => {
            let text = format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', \
                 'Object', 'None', or empty",
                quote(word)
            );
            Err(Status::bad_request(text).into())
        }
    }
}

/// The format of a write's body.
fn body_format(call: &Call, route: &ResourceRoute) -> Result<Format, Failure> {
    let stated = call.content_type();
    Ok(match is_custom_object(route) {
        true => custom_content_type(stated)?,
        false => content_type(stated)?,
    })
}

/// True if the body is a custom object, or a part of one, and not of another kind.
pub(super) fn is_custom_object(route: &ResourceRoute) -> bool {
    let is_own = route
        .subresource
        .as_ref()
        .is_none_or(|part| part.group_version.is_none());
    route.resource.is_custom() && is_own
}

/// The context of a write.
pub(super) fn write_context(
    call: &Call,
    manager: Option<String>,
    dry_run: bool,
    field_validation: Option<FieldValidation>,
) -> WriteContext {
    WriteContext {
        manager: self::manager(call, manager),
        dry_run,
        field_validation: field_validation.unwrap_or(FieldValidation::Warn),
        requester: Some(call.user.clone()),
        audit: call.audited.as_ref().map(|audited| audited.annotations()),
        ..WriteContext::default()
    }
}

/// The body and context of a POST.
pub(super) fn posted<'a>(
    call: &Call,
    route: &ResourceRoute,
    bytes: &'a [u8],
) -> Result<(Body<'a>, WriteContext), Failure> {
    let options = CreateOptions::from_query(call.query())?;
    let format = body_format(call, route)?;
    let context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    Ok((Body { format, bytes }, context))
}

/// The body and context of a PUT.
pub(super) fn put<'a>(
    call: &Call,
    route: &ResourceRoute,
    bytes: &'a [u8],
) -> Result<(Body<'a>, WriteContext), Failure> {
    let options = UpdateOptions::from_query(call.query())?;
    let format = body_format(call, route)?;
    let mut context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    context.authorize_create = true;
    Ok((Body { format, bytes }, context))
}

/// The field manager: from the options, else from the User-Agent.
pub(super) fn manager(call: &Call, named: Option<String>) -> String {
    named.unwrap_or_else(|| watchkeeper_meta::field_manager_from_user_agent(call.user_agent()))
}

/// Encodes an object as a response.
pub(super) fn object_answer(
    code: StatusCode,
    definition: &Definition,
    object: &StoredObject,
    form: Form,
) -> Result<Answer, Failure> {
    if matches!(form.accepted.transform, Transform::PartialObjectMetadataList(_)) {
        return Err(not_a_list(definition));
    }
    Ok(encoded(
        code,
        form.accepted,
        forms::object(definition, object, form)?,
    ))
}

/// Encodes the result of a write as a response.
pub(super) fn written_answer(
    definition: &Definition,
    written: Result<Written, Status>,
    form: Form,
) -> Result<Answer, Failure> {
    let written = written?;
    let code = match written.created {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    object_answer(code, definition, &written.object, form)
}

/// Encodes a list as a response. A long one is streamed, if its form allows that.
pub(super) fn list_answer(definition: &Arc<Definition>, list: List, form: Form) -> Result<Answer, Failure> {
    if matches!(form.accepted.transform, Transform::PartialObjectMetadata(_)) {
        return Err(is_a_list(definition));
    }
    let bytes = match forms::list_pieces(definition, list, form) {
        Err(list) => forms::list(definition, list, form)?,
        Ok(mut pieces) => {
            let first = pieces.next().transpose()?.unwrap_or_default();
            if !pieces.is_done() {
                return Ok(in_pieces(form.accepted, first, pieces));
            }
            first
        }
    };
    Ok(encoded(StatusCode::OK, form.accepted, bytes))
}

fn is_a_list(definition: &Definition) -> Failure {
    let list = &definition.list_kind;
    let text = "you requested PartialObjectMetadata, but the requested object is a list";
    Status::not_acceptable(format!("{text} (*{}.{list})", definition.internal_group())).into()
}

fn not_a_list(definition: &Definition) -> Failure {
    let kind = &definition.resource.kind;
    let text = "you requested PartialObjectMetadataList, but the requested object is not a list";
    Status::not_acceptable(format!("{text} (*{}.{kind})", definition.internal_group())).into()
}
