//! Questions that are answered and forgotten.

use http::StatusCode;
use serde_json::json;
use watchkeeper_meta::Status;

use super::objects::form;
use crate::filter::Call;
use crate::forms;
use crate::negotiate::{Offer, content_type};
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;

/// Whether a resource is such a question.
pub(super) fn is_review(route: &ResourceRoute) -> bool {
    let resource = &route.resource.resource;
    matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io")
}

/// `POST …/selfsubjectreviews`: who am I? The others need rules to answer from, which are not kept here yet.
pub(super) fn review(call: &Call, route: &ResourceRoute) -> Result<Answer, Failure> {
    let form = form(call, Offer::Virtual)?.accepted;
    content_type(call.content_type())?;
    if route.resource.resource.plural != "selfsubjectreviews" {
        let resource = route.resource.resource.group_resource();
        return Err(Status::method_not_supported(&resource, "create").into());
    }
    let user = &call.user;
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    let answer = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": { "creationTimestamp": call.server.registry.clock().now().to_rfc3339() },
        "status": { "userInfo": info },
    });
    Ok(encoded(
        StatusCode::CREATED,
        form,
        forms::value(&answer, form.encoding)?,
    ))
}
