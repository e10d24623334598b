//! DELETE of an object or of a collection.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use watchkeeper_meta::{DeleteOptions, ListOptions, Status};
use watchkeeper_registry::{Definition, Deletion, WriteContext};

use super::objects::{definition, form, list_answer, object_answer, write_context};
use super::options_body::delete_options;
use crate::filter::Call;
use crate::forms::Form;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, status, with_warnings};
use crate::route::ResourceRoute;

/// `DELETE …/{name}`.
pub(super) fn delete<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let form = form(call, route, Offer::Objects)?;
        let definition = definition(call, route)?;
        let options = options(call, &bytes)?;
        let context = write_context(call, None, options.dry_run, None);
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let name = route.name.as_deref().unwrap_or_default();
        let registry = &call.server.registry;
        let deletion = registry
            .delete(&definition, namespace, name, &options, &context)
            .await;
        let answer = match deletion {
            Ok(deletion) => answer(&definition, name, &deletion, &options, form),
            Err(status) => Err(status.into()),
        };
        with_warnings(answer, context.warnings.take())
    })
}

/// `DELETE …/{resource}`.
pub(super) fn delete_collection<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let form = form(call, route, Offer::Objects)?;
        let definition = definition(call, route)?;
        let selection = ListOptions::from_query(call.query())?;
        let options = options(call, &bytes)?;
        let context = WriteContext {
            of_collection: true,
            ..write_context(call, None, options.dry_run, None)
        };
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let registry = &call.server.registry;
        let list = registry
            .delete_collection(&definition, namespace, &selection, &options, &context)
            .await;
        let answer = match list {
            Ok(list) => list_answer(&definition, list, form),
            Err(status) => Err(status.into()),
        };
        with_warnings(answer, context.warnings.take())
    })
}

/// The options of the body if there is one, else of the query; never both.
fn options(call: &Call, bytes: &[u8]) -> Result<DeleteOptions, Failure> {
    match bytes {
        [] => Ok(DeleteOptions::from_query(call.query())?),
        bytes => delete_options(call, bytes),
    }
}

/// A removed object is answered with a `Status`, unless its kind returns the object; a marked one is returned.
fn answer(
    definition: &Definition,
    name: &str,
    deletion: &Deletion,
    options: &DeleteOptions,
    form: Form,
) -> Result<Answer, Failure> {
    match deletion {
        Deletion::Gone(object) if !definition.kind.delete_returns_object => {
            let value = object.to_value(definition)?;
            let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
            Ok(status(
                &Status::deleted(&definition.group_resource(), name, uid),
                form.accepted,
            ))
        }
        Deletion::Gone(object) => object_answer(StatusCode::OK, definition, object, form),
        // Clients that use the deprecated `orphanDependents=false` get 202.
        Deletion::Marked(object) => {
            let code = match options.orphan_dependents {
                Some(false) => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            object_answer(code, definition, object, form)
        }
    }
}
