//! Questions that are answered and forgotten: who am I, whose token is this, may I, may they?

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, Status};

use super::objects::form;
use super::options_body::read_kind;
use crate::authorize::authorize;
use crate::filter::Call;
use crate::forms;
use crate::identity::User;
use crate::negotiate::Offer;
use crate::request_info::{RequestInfo, ResourceInfo};
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;

/// Whether a resource is such a question.
pub(super) fn is_review(route: &ResourceRoute) -> bool {
    let resource = &route.resource.resource;
    matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io")
}

/// Answers a question; the answer is the question with a status.
pub(super) fn review(call: &Call, route: &ResourceRoute, bytes: &Bytes) -> Result<Answer, Failure> {
    let form = form(call, Offer::Virtual)?.accepted;
    let resource = &route.resource.resource;
    let package = resource.group.split('.').next().unwrap_or_default();
    let mut review = read_kind(call, bytes, &format!("{package}/v1.{}", resource.kind))?;
    review["status"] = match &*resource.plural {
        "selfsubjectreviews" => {
            review = json!({});
            review["metadata"]["creationTimestamp"] = call.server.registry.clock().now().to_rfc3339().into();
            json!({ "userInfo": user_info(&call.user) })
        }
        "tokenreviews" => token_status(call, &review["spec"])?,
        "selfsubjectaccessreviews" => access_status(&call.user, &review["spec"])?,
        "subjectaccessreviews" => access_status(&subject(&review["spec"])?, &review["spec"])?,
        "localsubjectaccessreviews" => {
            let namespace = route.namespace.as_deref().unwrap_or_default();
            check_local(&review["spec"], namespace)?;
            review["metadata"]["namespace"] = namespace.into();
            access_status(&subject(&review["spec"])?, &review["spec"])?
        }
        _ => {
            // Listing what one may do needs rules, which are not kept here yet.
            return Err(Status::method_not_supported(&resource.group_resource(), "create").into());
        }
    };
    review["apiVersion"] = resource.group_version_kind().api_version().into();
    review["kind"] = resource.kind.as_ref().into();
    let bytes = forms::value(&review, form.encoding)?;
    Ok(encoded(StatusCode::CREATED, form, bytes))
}

fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    info
}

fn token_status(call: &Call, spec: &Value) -> Result<Value, Status> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let known = call.server.tokens.user(token).cloned();
    Ok(match known.or_else(|| call.server.issued_to(token)) {
        Some(user) => json!({ "authenticated": true, "user": user_info(&user) }),
        None => json!({ "user": {}, "error": "invalid bearer token" }),
    })
}

/// Whom a review is about.
fn subject(spec: &Value) -> Result<User, Status> {
    let name = spec["user"].as_str().unwrap_or_default();
    let groups: Vec<String> = spec["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group.as_str().map(str::to_owned))
        .collect();
    if name.is_empty() && groups.is_empty() {
        let path = FieldPath::new("spec").child("user");
        let fault = FieldError::invalid(&path, "", "at least one of user or group must be specified");
        return Err(invalid(fault));
    }
    Ok(User {
        name: name.to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups,
    })
}

/// A review within a namespace asks about that namespace only.
fn check_local(spec: &Value, namespace: &str) -> Result<(), Status> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if path.is_object() {
        let field = FieldPath::new("spec").child("nonResourceAttributes");
        return Err(invalid(FieldError::invalid(
            &field,
            shown(path),
            "disallowed on this kind of request",
        )));
    }
    let asked = resource["namespace"].as_str().unwrap_or_default();
    if asked != namespace {
        let field = FieldPath::new("spec")
            .child("resourceAttributes")
            .child("namespace");
        return Err(invalid(FieldError::invalid(
            &field,
            asked,
            "must match metadata.namespace",
        )));
    }
    Ok(())
}

/// A path as Kubernetes' texts show it.
fn shown(path: &Value) -> Value {
    json!({ "Path": path["path"], "Verb": path["verb"] })
}

fn access_status(user: &User, spec: &Value) -> Result<Value, Status> {
    let request = asked(spec)?;
    Ok(json!({ "allowed": authorize(user, &request).is_ok() }))
}

/// The request a review asks about.
fn asked(spec: &Value) -> Result<RequestInfo, Status> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_object(), path.is_object()) {
        (true, false) => Ok(RequestInfo {
            verb: text(&resource["verb"]),
            path: String::new(),
            resource: Some(ResourceInfo {
                group: text(&resource["group"]),
                version: text(&resource["version"]),
                resource: text(&resource["resource"]),
                subresource: text(&resource["subresource"]),
                namespace: text(&resource["namespace"]),
                name: text(&resource["name"]),
            }),
        }),
        (false, true) => Ok(RequestInfo {
            verb: text(&path["verb"]),
            path: text(&path["path"]),
            resource: None,
        }),
        (_, both) => {
            let shown = if both { shown(path) } else { Value::Null };
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Err(invalid(FieldError::invalid(&FieldPath::new("spec"), shown, why)))
        }
    }
}

/// Kubernetes leaves the kind out of these.
fn invalid(fault: FieldError) -> Status {
    Status::invalid(&GroupKind::new("authorization.k8s.io", ""), "", &[fault])
}
