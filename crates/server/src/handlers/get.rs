//! GET of one object.

use http::StatusCode;
use watchkeeper_meta::GetOptions;

use super::objects::{definition, form, object_answer};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure};
use crate::route::ResourceRoute;

pub(super) async fn get(call: &Call, route: &ResourceRoute) -> Result<Answer, Failure> {
    let form = form(call, Offer::Objects)?;
    let definition = definition(call, route)?;
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
