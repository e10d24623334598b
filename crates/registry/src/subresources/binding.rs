//! Binding: assigns a pod to a node, once.

use serde_json::{Value, json};
use watchkeeper_kinds::{Part, builtin};
use watchkeeper_meta::{FieldError, FieldErrors, FieldPath, GroupResource, Status, join_field_errors};

use crate::admission::request::BINDING;
use crate::body::Body;
use crate::context::{WriteContext, timestamp};
use crate::object::Live;
use crate::write::{Managed, Proposal, Target, Write, check_stored_identity};
use crate::{Registry, metadata};

impl Registry {
    /// Binds a pod to the node in a `Binding`. `name` is the pod's name from the path, if it has one.
    pub async fn bind(
        &self,
        namespace: &str,
        name: Option<&str>,
        body: Body<'_>,
        context: &WriteContext,
    ) -> Result<Status, Status> {
        let mut binding = body.read_as("v1", "Binding")?;
        let stated = metadata::text(&binding, "name");
        let name = name.unwrap_or(stated).to_owned();
        let name = &*name;
        if stated != name {
            return Err(Status::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let pods = self.builtin(&builtin::POD)?;
        metadata::match_namespace(&pods, &mut binding, namespace)?;
        let named = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        self.label_by_node(&named, &mut binding).await?;
        self.admit_posted(&pods, &BINDING, &mut binding, context).await?;
        let node = target(&binding)?;
        let now = timestamp(self.clock().now());
        // Nobody becomes the manager of the scheduler's fields.
        let bind = |live: &Live| {
            let live = &live.value;
            check_stored_identity(&pods, live, &binding)?;
            if let Some(why) = unbindable(live) {
                let why = format!("pod {name} {why}");
                return Err(Status::conflict(
                    &GroupResource::new("", "pods/binding"),
                    name,
                    why,
                ));
            }
            let mut pod = live.clone();
            pod["spec"]["nodeName"] = json!(node);
            // The pod is where it was expected, or it is not expected there any longer.
            if let Some(status) = pod["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            for texts in ["annotations", "labels"] {
                for (key, text) in binding["metadata"][texts].as_object().into_iter().flatten() {
                    pod["metadata"][texts][key] = text.clone();
                }
            }
            set_scheduled(&mut pod, &now);
            Ok(Proposal {
                object: pod,
                managed: Managed::AsBefore,
            })
        };
        let target = Target::new(&pods, namespace, name, Part::Whole);
        Write::unguarded(self, target, context).change(bind).await?;
        Ok(Status::success(201))
    }
}

/// The reason for which a pod cannot be bound.
fn unbindable(pod: &Value) -> Option<String> {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let gates = pod["spec"]["schedulingGates"].as_array();
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        Some("is being deleted, cannot be assigned to a host".to_owned())
    } else if !node.is_empty() {
        Some(format!("is already assigned to node {node:?}"))
    } else if gates.is_some_and(|gates| !gates.is_empty()) {
        Some("has non-empty .spec.schedulingGates".to_owned())
    } else {
        None
    }
}

/// The node of a binding.
fn target(binding: &Value) -> Result<String, Status> {
    let path = FieldPath::new("target");
    let kind = binding["target"]["kind"].as_str().unwrap_or_default();
    let name = binding["target"]["name"].as_str().unwrap_or_default();
    let mut errors = FieldErrors::new();
    let node = builtin::NODE.name;
    if !kind.is_empty() && kind != node {
        errors.push(FieldError::not_supported(
            &path.child("kind"),
            kind,
            &[node, "<empty>"],
        ));
    }
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match errors.is_empty() {
        true => Ok(name.to_owned()),
        false => Err(Status::unclassified(join_field_errors(&errors))),
    }
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let scheduled =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let mut conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    conditions.push(scheduled);
    pod["status"]["conditions"] = Value::Array(conditions);
}
