//! GET of a collection: one page, or all of it.

use watchkeeper_meta::ListOptions;

use super::objects::{definition, form, list_answer};
use crate::filter::Call;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure};
use crate::route::ResourceRoute;

pub(super) async fn list(call: &Call, route: &ResourceRoute) -> Result<Answer, Failure> {
    let form = form(call, route, Offer::Collection)?;
    let definition = definition(call, route)?;
    let options = ListOptions::from_query(call.query())?;
    let namespace = route.namespace.as_deref().unwrap_or_default();
    let list = call
        .server
        .registry
        .list(&definition, namespace, &options)
        .await?;
    list_answer(&definition, list, form)
}
