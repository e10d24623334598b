//! The scale subresource: the replica count of a workload. A custom kind defines the paths of its counts.

use std::sync::Arc;

use serde_json::{Value, json};
use watchkeeper_kinds::Part;
use watchkeeper_kinds::custom::ScalePaths;
use watchkeeper_kinds::custom::json_path::JsonPath;
use watchkeeper_meta::{FieldError, FieldPath, GroupKind, LabelSelector, PatchKind, Status, StatusCause};
use watchkeeper_wire::canonical::{canonicalize, read_body};
use watchkeeper_wire::schema::Schema;

use crate::body::Body;
use crate::context::WriteContext;
use crate::definition::Definition;
use crate::object::Live;
use crate::write::{
    Configuration, Managed, Proposal, Target, Write, check_shape, other_kind, patched, read_configuration,
};
use crate::{Registry, metadata};

const API_VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

impl Registry {
    /// The scale of a workload, as an `autoscaling/v1` Scale.
    pub async fn scale(&self, definition: &Definition, namespace: &str, name: &str) -> Result<Value, Status> {
        scale_of(definition, &self.present(definition, namespace, name).await?)
    }

    /// Sets the replica count of a workload.
    pub async fn update_scale(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        body: Body<'_>,
        context: &WriteContext,
    ) -> Result<Value, Status> {
        let mut write = Write::begin(
            self,
            Target::new(definition, namespace, name, Part::Scale),
            context,
        )
        .await?;
        let definition = write.definition.clone();
        let scale = body.read_as(API_VERSION, KIND)?;
        let stated = scale["apiVersion"].as_str().unwrap_or_default();
        if !stated.is_empty() && stated != API_VERSION {
            return Err(Status::bad_request(format!(
                "the API version in the data ({stated}) does not match the expected API version ({API_VERSION})"
            )));
        }
        metadata::match_name(&scale, name)?;
        let propose = |live: &Live| scaled(&definition, name, &live.value, &scale);
        let changed = write.change(propose).await?;
        scale_of(&definition, &changed.to_value(&definition)?)
    }

    /// Patches the scale of a workload.
    pub async fn patch_scale(
        &self,
        definition: &Arc<Definition>,
        namespace: &str,
        name: &str,
        (kind, patch): (PatchKind, &[u8]),
        context: &WriteContext,
    ) -> Result<Value, Status> {
        let mut write = Write::begin(
            self,
            Target::new(definition, namespace, name, Part::Scale),
            context,
        )
        .await?;
        let definition = write.definition.clone();
        if kind == PatchKind::Apply {
            let scale = read_configuration(patch)?;
            let live = self.present(&definition, namespace, name).await?;
            if !context.force && !is_applied(&definition, &live) {
                refuse_another_number(&scale_of(&definition, &live)?, &scale.value)?;
            }
            let config = Configuration {
                value: configuration(&definition, name, &scale.value)?,
                ..scale
            };
            let applied = write
                .apply(config, context.force || !is_applied(&definition, &live))
                .await?;
            return scale_of(&definition, &applied.object.to_value(&definition)?);
        }
        // A Scale has no lists, so a strategic merge patch equals a merge patch.
        let kind = match kind {
            PatchKind::Strategic => PatchKind::Merge,
            kind => kind,
        };
        let patch = read_body(patch)
            .map_err(|_| Status::bad_request("invalid JSON patch"))?
            .value;
        check_shape(kind, &patch)?;
        let propose = |live: &Live| {
            let scale = scale_of(&definition, &live.value)?;
            let scale = patched(&definition, kind, scale, &patch)?;
            check_types(&scale)?;
            scaled(&definition, name, &live.value, &scale)
        };
        let changed = write.change(propose).await?;
        scale_of(&definition, &changed.to_value(&definition)?)
    }
}

/// True if a manager has applied `spec.replicas`. Always false for a custom kind, whose count may be at any path.
fn is_applied(definition: &Definition, live: &Value) -> bool {
    let managers = live["metadata"]["managedFields"].as_array();
    let owns = |manager: &Value| {
        manager["operation"] == "Apply" && manager["fieldsV1"].pointer("/f:spec/f:replicas").is_some()
    };
    paths(definition).is_some() || managers.is_some_and(|managers| managers.iter().any(owns))
}

/// Reports a conflict if the count changes, unless the apply is forced. A manager that did not apply counts as
/// `before-first-apply`.
fn refuse_another_number(live: &Value, wanted: &Value) -> Result<(), Status> {
    let wanted = &wanted["spec"]["replicas"];
    let live = live["spec"]["replicas"].as_i64().unwrap_or_default();
    if wanted.as_i64().is_none_or(|wanted| wanted == live) {
        return Ok(());
    }
    let cause = StatusCause {
        reason: "FieldManagerConflict".into(),
        message: format!(
            "conflict with \"before-first-apply\" with subresource \"scale\" using {API_VERSION}"
        ),
        field: ".spec.replicas".to_owned(),
    };
    let text = format!("Apply failed with 1 conflict: {}: {}", cause.message, cause.field);
    Err(Status::apply_conflict(text, vec![cause]))
}

/// The Scale of a workload.
pub(crate) fn scale_of(definition: &Definition, workload: &Value) -> Result<Value, Status> {
    let mut identity = json!({});
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = workload["metadata"].get(name) {
            identity[name] = value.clone();
        }
    }
    let numbers = match paths(definition) {
        Some(paths) => custom_numbers(paths, workload),
        None => json!({
            "spec": {"replicas": workload["spec"]["replicas"]},
            "status": {
                "replicas": workload["status"]["replicas"].as_i64().unwrap_or_default(),
                "selector": selector_of(&workload["spec"]["selector"])?,
            },
        }),
    };
    let scale = json!({
        "metadata": identity,
        "spec": numbers["spec"],
        "status": numbers["status"],
    });
    let schema = Schema::builtin();
    let known = schema
        .kind(API_VERSION, KIND)
        .ok_or_else(Status::path_not_found)?;
    let mut scale = canonicalize(schema, known, scale)
        .map_err(Status::internal_error)?
        .value;
    scale["apiVersion"] = json!(API_VERSION);
    scale["kind"] = json!(KIND);
    Ok(scale)
}

/// The scale paths of a custom kind.
fn paths(definition: &Definition) -> Option<&ScalePaths> {
    definition.custom.as_ref()?.scale.as_ref()
}

/// The counts of a custom object. Its selector is a string already.
fn custom_numbers(paths: &ScalePaths, object: &Value) -> Value {
    let number = |path: &JsonPath| path.first(object).and_then(Value::as_i64).unwrap_or_default();
    let selector = paths.selector.as_ref().and_then(|path| path.first(object));
    json!({
        "spec": {"replicas": number(&paths.wanted)},
        "status": {
            "replicas": number(&paths.found),
            "selector": selector.and_then(Value::as_str).unwrap_or_default(),
        },
    })
}

/// Sets the replica count in an object.
pub(crate) fn set_replicas(definition: &Definition, object: &mut Value, replicas: Value) {
    match paths(definition) {
        Some(paths) => paths.wanted.set(object, replicas),
        None => object["spec"]["replicas"] = replicas,
    }
}

/// The live object with the replica count of another; `None` if that has no count at the path of the kind.
pub(crate) fn with_replicas_of(definition: &Definition, live: &Value, other: &Value) -> Option<Value> {
    let paths = paths(definition)?;
    let mut object = live.clone();
    paths.wanted.set(&mut object, paths.wanted.first(other)?.clone());
    Some(object)
}

/// The label selector as a query string. A ReplicationController's selector is a plain label map.
fn selector_of(selector: &Value) -> Result<String, Status> {
    let is_selector = ["matchLabels", "matchExpressions"]
        .iter()
        .any(|name| selector.get(name).is_some());
    let parsed = match selector.as_object() {
        Some(_) if is_selector => LabelSelector::from_json(selector),
        labels => LabelSelector::from_labels(
            labels
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())),
        ),
    };
    Ok(parsed.map_err(Status::internal_error)?.to_string())
}

/// The workload with the replica count of a Scale.
fn scaled(definition: &Definition, name: &str, live: &Value, scale: &Value) -> Result<Proposal, Status> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    check(definition, name, replicas)?;
    let mut object = live.clone();
    set_replicas(definition, &mut object, json!(replicas));
    // A Scale without a version applies to the current one, even for kinds that require a version on update.
    for identity in ["uid", "resourceVersion"] {
        if !metadata::text(scale, identity).is_empty() {
            object["metadata"][identity] = scale["metadata"][identity].clone();
        }
    }
    Ok(Proposal {
        object,
        managed: Managed::ByChange,
    })
}

/// Rejects a patched Scale whose fields have wrong types.
fn check_types(scale: &Value) -> Result<(), Status> {
    let schema = Schema::builtin();
    let known = schema
        .kind(API_VERSION, KIND)
        .ok_or_else(Status::path_not_found)?;
    let Err(error) = canonicalize(schema, known, scale.clone()) else {
        return Ok(());
    };
    let error = FieldError::invalid(&FieldPath::new("patch"), in_order(scale), error.message);
    Err(Status::invalid(&GroupKind::new("", ""), "", &error.into()))
}

/// A Scale as JSON, with its metadata in the order of the Go struct.
fn in_order(scale: &Value) -> String {
    let names = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let known = names
        .iter()
        .filter_map(|name| Some((name, scale["metadata"].get(name)?)));
    let metadata: Vec<String> = known.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let fields = scale.as_object().into_iter().flatten();
    let fields: Vec<String> = fields
        .map(|(name, value)| match name.as_str() {
            "metadata" => format!("\"metadata\":{{{}}}", metadata.join(",")),
            name => format!("\"{name}\":{value}"),
        })
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// Rejects a negative count. A custom kind's own schema validates it.
fn check(definition: &Definition, name: &str, replicas: i64) -> Result<(), Status> {
    if replicas >= 0 || paths(definition).is_some() {
        return Ok(());
    }
    let path = FieldPath::new("spec").child("replicas");
    let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
    Err(Status::invalid(
        &GroupKind::new("autoscaling", KIND),
        name,
        &error.into(),
    ))
}

/// The workload configuration of an applied Scale. Without a count it is empty.
fn configuration(definition: &Definition, name: &str, scale: &Value) -> Result<Value, Status> {
    if scale["kind"] != KIND {
        return Err(other_kind(scale));
    }
    let mut workload = json!({
        "apiVersion": definition.api_version,
        "kind": definition.resource.kind,
        "metadata": {"name": name},
    });
    if let Some(replicas) = scale["spec"]["replicas"].as_i64() {
        check(definition, name, replicas)?;
        set_replicas(definition, &mut workload, json!(replicas));
    }
    Ok(workload)
}
