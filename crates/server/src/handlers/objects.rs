//! What the handlers of the resource API share: which resource is meant, in which form it is answered, and how an
//! object or a list becomes that answer.

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

/// What can be had of an object, or of a part of it.
pub(super) fn objects_offer(definition: &Definition, route: &ResourceRoute) -> Offer {
    let part = route.subresource.as_ref();
    match part.is_some_and(|part| part.name == Part::Status.subresource())
        && definition.kind.status_without_table
    {
        true => Offer::Virtual,
        false => Offer::Objects,
    }
}

/// The form of the answer about a resource's objects, out of what can be offered.
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

/// What comes with each row of a table; nobody else looks at the word.
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

/// How the body of a write is written.
fn body_format(call: &Call, route: &ResourceRoute) -> Result<Format, Failure> {
    let stated = call.content_type();
    Ok(match is_custom_object(route) {
        true => custom_content_type(stated)?,
        false => content_type(stated)?,
    })
}

/// Whether what is written is a custom object, or a part of one that is no object of another kind.
pub(super) fn is_custom_object(route: &ResourceRoute) -> bool {
    let is_own = route
        .subresource
        .as_ref()
        .is_none_or(|part| part.group_version.is_none());
    route.resource.is_custom() && is_own
}

/// Who writes, and how.
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
        ..WriteContext::default()
    }
}

/// What a POST brings: the body, and who writes it and how.
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

/// What a PUT brings: the body, and who writes it and how.
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

/// Who is said to have written: whom the caller names, or else the program that asks.
pub(super) fn manager(call: &Call, named: Option<String>) -> String {
    named.unwrap_or_else(|| watchkeeper_meta::field_manager_from_user_agent(call.user_agent()))
}

/// An object as an answer.
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

/// What became of a write, as an answer.
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

/// A list as an answer. A long one is made while it is sent, if its form allows that.
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
