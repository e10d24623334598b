//! GET of one object.

use http::StatusCode;
use watchkeeper_meta::{GetOptions, QueryParams, Status};

use super::objects::{definition, form, object_answer, objects_offer};
use crate::filter::Call;
use crate::respond::{Answer, Failure};
use crate::route::ResourceRoute;

pub(super) async fn get(call: &Call, route: &ResourceRoute) -> Result<Answer, Failure> {
    let definition = definition(call, route)?;
    let form = form(call, route, objects_offer(&definition, route))?;
    refuse_export(call.query())?;
    let options = GetOptions::from_query(call.query());
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let name = route.name.as_deref().unwrap_or_default();
    let object = call
        .server
        .registry
        .get(&definition, namespace, name, &options)
        .await?;
    object_answer(StatusCode::OK, &definition, &object, form)
}

/// Rejects the removed `export` parameter, as real servers do.
fn refuse_export(query: &str) -> Result<(), Status> {
    if QueryParams::parse(query).flag("export") {
        let text = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(text));
    }
    Ok(())
}
