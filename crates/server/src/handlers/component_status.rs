//! Component statuses, which nothing stores: whether the parts of a control plane are well. This server is one part;
//! the other is its storage, which is called `etcd-0` as it is in every cluster.

use http::StatusCode;
use serde_json::{Value, json};
use watchkeeper_meta::Status;

use super::objects::form;
use crate::filter::Call;
use crate::forms;
use crate::negotiate::Offer;
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;

const STORAGE: &str = "etcd-0";

/// Whether a request is about them.
pub(super) fn is_asked(route: &ResourceRoute) -> bool {
    let resource = &route.resource.resource;
    resource.group.is_empty() && resource.plural == "componentstatuses"
}

/// `GET /api/v1/componentstatuses`, or one of them.
pub(super) async fn answer(call: &Call, route: &ResourceRoute) -> Result<Answer, Failure> {
    let form = form(call, Offer::Virtual)?.accepted;
    let storage = storage(call).await;
    let answer = match route.name.as_deref() {
        None => {
            json!({ "apiVersion": "v1", "kind": "ComponentStatusList", "metadata": {}, "items": [storage] })
        }
        Some(STORAGE) => {
            let mut answer = storage;
            answer["apiVersion"] = "v1".into();
            answer["kind"] = "ComponentStatus".into();
            answer
        }
        // Not a 404: so does a real server.
        Some(other) => return Err(Status::unclassified(format!("Component not found: {other}")).into()),
    };
    Ok(encoded(
        StatusCode::OK,
        form,
        forms::value(&answer, form.encoding)?,
    ))
}

async fn storage(call: &Call) -> Value {
    let (status, message) = match call.server.health().await.storage {
        true => ("True", "ok"),
        false => ("False", "storage does not answer"),
    };
    let condition = json!({ "type": "Healthy", "status": status, "message": message });
    json!({ "metadata": { "name": STORAGE }, "conditions": [condition] })
}
