//! Review requests, which are answered and not stored: SelfSubjectReview, TokenReview and the access reviews.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use watchkeeper_meta::validation::label_selector;
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath, GroupKind, Status};
use watchkeeper_registry::{Decision, Registry, Rules, User};

use super::objects::{form, manager};
use super::options_body::read_kind;
use crate::authorize::attributes;
use crate::filter::Call;
use crate::forms;
use crate::negotiate::Offer;
use crate::request_info::{RequestInfo, ResourceInfo};
use crate::respond::{Answer, Failure, encoded};
use crate::route::ResourceRoute;

/// True if a resource is a review.
pub(super) fn is_review(route: &ResourceRoute) -> bool {
    let resource = &route.resource.resource;
    matches!(&*resource.group, "authentication.k8s.io" | "authorization.k8s.io")
}

/// Answers a review: the request with a status.
pub(super) fn review<'a>(
    call: &'a Call,
    route: &'a ResourceRoute,
    bytes: &'a Bytes,
) -> BoxFuture<'a, Result<Answer, Failure>> {
    Box::pin(async move {
        let form = form(call, route, Offer::Virtual)?.accepted;
        let resource = &route.resource.resource;
        let package = resource.group.split('.').next().unwrap_or_default();
        let mut review = read_kind(call, bytes, &format!("{package}/v1.{}", resource.kind))?;
        let namespace = route.namespace.as_deref().unwrap_or_default();
        let registry = &call.server.registry;
        if review.is_object() && !review["metadata"].is_object() {
            review["metadata"] = json!({});
        }
        let status = match &*resource.plural {
            "selfsubjectreviews" => {
                review = json!({});
                review["metadata"]["creationTimestamp"] = registry.clock().now().to_rfc3339().into();
                json!({ "userInfo": user_info(&call.user) })
            }
            "selfsubjectrulesreviews" => {
                let asked = namespace_asked(&review)?.to_owned();
                review = json!({ "spec": {} });
                rules_status(&registry.rules_of(&call.user, &asked).await?)
            }
            "tokenreviews" => token_status(call, &review["spec"]).await?,
            "selfsubjectaccessreviews" => access_status(registry, &call.user, &review["spec"]).await?,
            "subjectaccessreviews" => {
                access_status(registry, &subject(&review["spec"])?, &review["spec"]).await?
            }
            "localsubjectaccessreviews" => {
                let stated = review["metadata"]["namespace"].as_str().unwrap_or_default();
                if !stated.is_empty() && stated != namespace {
                    return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                )
                .into());
                }
                check_local(&review["spec"], namespace)?;
                review["metadata"]["namespace"] = namespace.into();
                access_status(registry, &subject(&review["spec"])?, &review["spec"]).await?
            }
            _ => return Err(Status::method_not_supported(&resource.group_resource(), "create").into()),
        };
        if !matches!(
            &*resource.plural,
            "selfsubjectreviews" | "selfsubjectrulesreviews"
        ) {
            registry.record_unstored(resource, &mut review, &manager(call, None));
        }
        review["status"] = status;
        review["apiVersion"] = resource.group_version_kind().api_version().into();
        review["kind"] = resource.kind.as_ref().into();
        let bytes = forms::value(&review, form.format)?;
        Ok(encoded(StatusCode::CREATED, form, bytes))
    })
}

fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

async fn token_status(call: &Call, spec: &Value) -> Result<Value, Status> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let asked = spec["audiences"].as_array().into_iter().flatten();
    let mut audiences: Vec<&str> = asked.filter_map(Value::as_str).collect();
    if audiences.is_empty() {
        audiences = call.server.audiences();
    }
    if let Some(user) = call.server.tokens.user(token) {
        return Ok(known_token(user, &audiences, &call.server.audiences()));
    }
    Ok(match call.server.issued_for(token, &audiences).await {
        Some((user, meant)) => json!({ "authenticated": true, "user": user_info(&user), "audiences": meant }),
        None => unknown_token(),
    })
}

/// A token from a file is valid only for this server, as in Kubernetes: other audiences do not match.
fn known_token(user: &User, audiences: &[&str], own: &[&str]) -> Value {
    let meant: Vec<_> = audiences
        .iter()
        .filter(|audience| own.contains(audience))
        .collect();
    match meant.is_empty() {
        true => unknown_token(),
        false => json!({ "authenticated": true, "user": user_info(user), "audiences": meant }),
    }
}

fn unknown_token() -> Value {
    json!({ "user": {}, "error": "invalid bearer token" })
}

/// The subject of a review.
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
        let error = FieldError::invalid(&path, "", "at least one of user or group must be specified");
        return Err(invalid(error));
    }
    Ok(User {
        name: name.to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups,
        ..User::default()
    })
}

/// A local review must be about its own namespace.
fn check_local(spec: &Value, namespace: &str) -> Result<(), Status> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = FieldErrors::new();
    errors.extend(check_attributes(spec));
    if path.is_object() {
        let field = FieldPath::new("spec").child("nonResourceAttributes");
        let why = "disallowed on this kind of request";
        errors.push(FieldError::invalid(&field, shown(path), why));
    }
    if !errors.is_empty() {
        return Err(all_invalid(&errors));
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

/// A path as printed in Kubernetes' texts.
fn shown(path: &Value) -> Value {
    json!({ "Path": path["path"], "Verb": path["verb"] })
}

async fn access_status(registry: &Registry, user: &User, spec: &Value) -> Result<Value, Status> {
    if let Some(error) = check_attributes(spec) {
        return Err(invalid(error));
    }
    let request = asked(spec)?;
    let decision = registry.may(user, attributes(&request)).await?;
    let mut status = json!({ "allowed": decision.is_allowed() });
    let (Decision::Allowed(why) | Decision::Refused(why)) = decision;
    if !why.is_empty() {
        status["reason"] = why.into();
    }
    let unreadable: Vec<String> = ["fieldSelector", "labelSelector"]
        .into_iter()
        .filter(|field| !is_selector(&spec["resourceAttributes"][field]))
        .map(|field| format!("spec.resourceAttributes.{field} ignored due to parse error"))
        .collect();
    match unreadable.as_slice() {
        [] => {}
        [one] => status["evaluationError"] = json!(one),
        all => status["evaluationError"] = json!(format!("[{}]", all.join(", "))),
    }
    Ok(status)
}

fn namespace_asked(review: &Value) -> Result<&str, Status> {
    match review["spec"]["namespace"].as_str() {
        None | Some("") => Err(Status::bad_request("no namespace on request")),
        Some(namespace) => Ok(namespace),
    }
}

/// The rules of a user, as a list.
fn rules_status(found: &Rules) -> Value {
    let mut status =
        json!({ "resourceRules": [], "nonResourceRules": [], "incomplete": !found.missing.is_empty() });
    for rule in &found.rules {
        if !rule.resources.is_empty() {
            let mut shown =
                json!({ "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources });
            if !rule.resource_names.is_empty() {
                shown["resourceNames"] = json!(rule.resource_names);
            }
            push(&mut status["resourceRules"], shown);
        }
        if !rule.non_resource_urls.is_empty() {
            let shown = json!({ "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls });
            push(&mut status["nonResourceRules"], shown);
        }
    }
    match found.missing.as_slice() {
        [] => {}
        [role] => status["evaluationError"] = json!(role),
        roles => status["evaluationError"] = json!(format!("[{}]", roles.join(", "))),
    }
    status
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// True if a selector of a review is valid. RBAC ignores it.
fn is_selector(selector: &Value) -> bool {
    let expressions = json!({ "matchExpressions": selector["requirements"] });
    label_selector(&expressions, &FieldPath::new("spec")).is_empty()
}

/// The action of a review.
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
            any_version: false,
        }),
        (false, true) => Ok(RequestInfo {
            verb: text(&path["verb"]),
            path: text(&path["path"]),
            resource: None,
            any_version: false,
        }),
        _ => Err(all_invalid(&check_attributes(spec).into_iter().collect())),
    }
}

/// The errors of a review's attributes: it needs a resource or a path, and a selector is a string or a list.
fn check_attributes(spec: &Value) -> Option<FieldError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() == path.is_object() {
        let shown = if path.is_object() {
            shown(path)
        } else {
            Value::Null
        };
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return Some(FieldError::invalid(&FieldPath::new("spec"), shown, why));
    }
    ["fieldSelector", "labelSelector"].into_iter().find_map(|name| {
        let (raw, list) = (&resource[name]["rawSelector"], &resource[name]["requirements"]);
        let is_both = raw.as_str().is_some_and(|raw| !raw.is_empty())
            && list.as_array().is_some_and(|it| !it.is_empty());
        let path = FieldPath::from("spec.resourceAttributes")
            .child(name)
            .child("rawSelector");
        is_both.then(|| {
            FieldError::invalid(
                &path,
                raw.clone(),
                "may not specified at the same time as requirements",
            )
        })
    })
}

/// Kubernetes omits the kind in these errors.
fn invalid(error: FieldError) -> Status {
    all_invalid(&error.into())
}

fn all_invalid(errors: &FieldErrors) -> Status {
    Status::invalid(&GroupKind::new("authorization.k8s.io", ""), "", errors)
}
