//! ComponentStatuses, which are not stored. The only component besides this server is its storage, called `etcd-0` as
//! in every cluster.

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use watchkeeper_kinds::builtin;
use watchkeeper_meta::Status;
use watchkeeper_registry::{Definition, StoredObject};
use watchkeeper_wire::protobuf::encode_body;
use watchkeeper_wire::schema::Schema;

use super::objects::{form, object_answer};
use crate::filter::Call;
use crate::forms::{self, Form};
use crate::negotiate::{Offer, Transform};
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;

const STORAGE: &str = "etcd-0";

/// True if a request is for component statuses.
pub(super) fn is_component_status(route: &ResourceRoute) -> bool {
    let resource = &route.resource.resource;
    builtin::by_plural(&resource.group, &resource.plural) == Some(&builtin::COMPONENT_STATUS)
}

/// `GET /api/v1/componentstatuses`, or one of them.
pub(super) fn answer<'a>(call: &'a Call, route: &'a ResourceRoute) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let storage = storage(call).await;
        match route.name.as_deref() {
            None => {
                let form = form(call, route, Offer::Collection)?;
                // A Table of all is that of the only one.
                if matches!(form.accepted.transform, Transform::Table(_)) {
                    return one(&storage, form);
                }
                let list = json!({
                    "apiVersion": "v1", "kind": "ComponentStatusList", "metadata": {}, "items": [storage],
                });
                let encoding = form.accepted.format;
                Ok(encoded(
                    StatusCode::OK,
                    form.accepted,
                    forms::value(&list, encoding)?,
                ))
            }
            Some(STORAGE) => one(&storage, form(call, route, Offer::Objects)?),
            // Not a 404, as in a real server.
            Some(other) => Err(Status::unclassified(format!("Component not found: {other}")).into()),
        }
    })
}

fn one(status: &Value, form: Form) -> Result<Answer, Failure> {
    let definition = Definition::component_statuses().ok_or_else(Status::path_not_found)?;
    let mut status = status.clone();
    status["apiVersion"] = "v1".into();
    status["kind"] = "ComponentStatus".into();
    let bytes = encode_body(Schema::builtin(), &status).map_err(Status::internal_error)?;
    let object = StoredObject {
        bytes: bytes.into(),
        revision: None,
    };
    object_answer(StatusCode::OK, &definition, &object, form)
}

async fn storage(call: &Call) -> Value {
    let (status, message) = match call.server.health().await.storage {
        true => ("True", "ok"),
        false => ("False", "storage does not answer"),
    };
    let condition = json!({ "type": "Healthy", "status": status, "message": message });
    json!({ "metadata": { "name": STORAGE }, "conditions": [condition] })
}
