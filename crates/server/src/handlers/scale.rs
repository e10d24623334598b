//! The scale of a workload: a small object that shows and sets nothing but its number of replicas.
//!
//! Its fields stand at the same paths in the workload itself, so a change of the scale is passed on as the same
//! change of the workload, cut down to what a scale has.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};
use watchkeeper_meta::{
    ApplyOptions, FieldError, FieldPath, GetOptions, GroupKind, PatchOptions, Status, StatusReason,
    UpdateOptions,
};
use watchkeeper_registry::{Definition, Part, PatchKind, StoredObject, WriteContext};
use watchkeeper_wire::yaml::{self, Mode};

use super::objects::{definition, form, write_context};
use super::options_body::read_kind;
use crate::Verb;
use crate::filter::Call;
use crate::forms::{self, Form};
use crate::negotiate::{Offer, PatchType, patch_type};
use crate::respond::{Answer, Failure, encoded, with_warnings};
use crate::route::ResourceRoute;

/// `GET`, `PUT` and `PATCH` of `…/scale`.
pub(super) async fn scale(call: &Call, route: &ResourceRoute, bytes: Bytes) -> Result<Answer, Failure> {
    let form = form(call, Offer::Virtual)?;
    let definition = definition(call, route)?;
    match route.verb {
        Verb::Get => {
            let options = GetOptions::from_query(call.query());
            let (namespace, name) = place(route);
            let object = call
                .server
                .registry
                .get(&definition, namespace, name, &options)
                .await?;
            answer(&definition, &object, form)
        }
        Verb::Update => {
            let options = UpdateOptions::from_query(call.query())?;
            let wanted = read_kind(call, &bytes, "autoscaling/v1.Scale")?;
            let change = cut_down(route, &wanted)?;
            let context = write_context(
                call,
                options.field_manager,
                options.dry_run,
                options.field_validation,
            );
            write(call, route, &definition, PatchKind::Merge, &change, context, form).await
        }
        _ => patch(call, route, &definition, &bytes, form).await,
    }
}

async fn patch(
    call: &Call,
    route: &ResourceRoute,
    definition: &Arc<Definition>,
    bytes: &[u8],
    form: Form,
) -> Result<Answer, Failure> {
    let kind = patch_type(call.content_type())?;
    if kind == PatchType::Apply {
        let options = ApplyOptions::from_query(call.query())?;
        let manager = Some(options.field_manager);
        let context = write_context(call, manager, options.dry_run, options.field_validation);
        let applied = yaml::first_document(bytes, Mode::Lenient).map_err(|error| {
            Status::bad_request(format!("error decoding patch: {}", error.to_go_string()))
        })?;
        let change = applied_workload(definition, route, cut_down(route, &applied.value)?);
        let kind = PatchKind::Apply { force: options.force };
        return write(call, route, definition, kind, &change, context, form).await;
    }
    let options = PatchOptions::from_query(call.query())?;
    let context = write_context(
        call,
        options.field_manager,
        options.dry_run,
        options.field_validation,
    );
    let patch: Value =
        serde_json::from_slice(bytes).map_err(|error| Status::bad_request(error.to_string()))?;
    let (kind, change) = match kind {
        PatchType::Json => (PatchKind::Json, only_replicas(patch)?),
        _ => (PatchKind::Merge, cut_down(route, &patch)?),
    };
    write(call, route, definition, kind, &change, context, form).await
}

/// What is applied to a scale, as if it were applied to the workload.
fn applied_workload(definition: &Definition, route: &ResourceRoute, mut change: Value) -> Value {
    let (namespace, name) = place(route);
    change["apiVersion"] = definition.api_version.as_str().into();
    change["kind"] = definition.resource.kind.as_ref().into();
    change["metadata"]["name"] = name.into();
    change["metadata"]["namespace"] = namespace.into();
    change
}

async fn write(
    call: &Call,
    route: &ResourceRoute,
    definition: &Arc<Definition>,
    kind: PatchKind,
    change: &Value,
    context: WriteContext,
    form: Form,
) -> Result<Answer, Failure> {
    let (namespace, name) = place(route);
    let change = change.to_string();
    let registry = &call.server.registry;
    let written = registry
        .patch(
            definition,
            namespace,
            name,
            Part::Object,
            kind,
            change.as_bytes(),
            &context,
        )
        .await;
    let answer = match written {
        Ok(written) => answer(definition, &written.object, form),
        Err(status) => Err(status.into()),
    };
    with_warnings(answer, context.warnings.take())
}

fn place(route: &ResourceRoute) -> (&str, &str) {
    let namespace = route.namespace.as_deref().unwrap_or_default();
    (namespace, route.name.as_deref().unwrap_or_default())
}

/// The part of a scale that a workload has: how many, and on condition of which version.
fn cut_down(route: &ResourceRoute, scale: &Value) -> Result<Value, Failure> {
    let replicas = scale["spec"]["replicas"].as_i64();
    if let Some(replicas) = replicas.filter(|replicas| *replicas < 0) {
        let path = FieldPath::new("spec").child("replicas");
        let fault = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
        let name = route.name.as_deref().unwrap_or_default();
        return Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), name, &[fault]).into());
    }
    let mut change = json!({ "spec": { "replicas": replicas.unwrap_or_default() } });
    let metadata: Map<String, Value> = ["resourceVersion", "uid"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), scale["metadata"].get(name)?.clone())))
        .collect();
    if !metadata.is_empty() {
        change["metadata"] = Value::Object(metadata);
    }
    Ok(change)
}

/// Operations on anything else would reach fields a scale does not have.
fn only_replicas(operations: Value) -> Result<Value, Failure> {
    let list = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    let foreign = list.iter().find(|operation| {
        let path = operation["path"].as_str().unwrap_or_default();
        path != "/spec/replicas" && !path.starts_with("/metadata/")
    });
    match foreign {
        Some(_) => {
            let text = "the server rejected our request due to an error in our request";
            Err(Status::failure(422, StatusReason::INVALID, text).into())
        }
        None => Ok(operations),
    }
}

/// The scale of a workload, as an answer.
fn answer(definition: &Definition, object: &StoredObject, form: Form) -> Result<Answer, Failure> {
    let workload = object.to_value(definition)?;
    let metadata: Map<String, Value> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), workload["metadata"].get(name)?.clone())))
        .collect();
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": { "replicas": number(&workload["spec"]["replicas"]) },
        "status": {
            "replicas": number(&workload["status"]["replicas"]),
            "selector": selector_text(&workload["spec"]["selector"]),
        },
    });
    let bytes = forms::value(&scale, form.accepted.encoding)?;
    Ok(encoded(StatusCode::OK, form.accepted, bytes))
}

/// A selector in the form of a query; controllers of old have plain labels for one.
fn selector_text(selector: &Value) -> String {
    let is_plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if is_plain {
        selector
    } else {
        &selector["matchLabels"]
    };
    let mut terms: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.sort();
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_as_queries() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(selector_text(&selector), "!old,app=web,tier in (a,b)");
        assert_eq!(selector_text(&json!({"app": "web"})), "app=web");
    }

    #[test]
    fn json_patches_reach_nothing_but_replicas() {
        let replicas = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
        assert!(only_replicas(replicas).is_ok());
        let template = json!([{"op": "remove", "path": "/spec/template"}]);
        assert!(only_replicas(template).is_err());
    }
}
