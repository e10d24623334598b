//! The RuntimeClass plugin: sets a pod's overhead and scheduling constraints from its class.

use serde_json::{Value, json};
use watchkeeper_kinds::{add_default_tolerations, builtin};
use watchkeeper_meta::Status;

use crate::definition::Definition;
use crate::{Registry, metadata};

impl Registry {
    /// Completes a new pod from its runtime class, or rejects it.
    pub(super) async fn take_from_runtime_class(
        &self,
        definition: &Definition,
        pod: &mut Value,
    ) -> Result<(), Status> {
        let refuse = |pod: &Value, why: &str| {
            Status::forbidden(&definition.group_resource(), metadata::text(pod, "name"), why)
        };
        let Some(name) = pod["spec"]["runtimeClassName"]
            .as_str()
            .filter(|name| !name.is_empty())
        else {
            return check_overhead(&Value::Null, &pod["spec"]).map_err(|why| refuse(pod, &why));
        };
        let Some(class) = self.runtime_class(name).await? else {
            return Err(refuse(
                pod,
                &format!("pod rejected: RuntimeClass {name:?} not found"),
            ));
        };
        // The default tolerations come first.
        add_default_tolerations(pod);
        complete(&class, &mut pod["spec"]).map_err(|why| refuse(pod, &why))
    }

    async fn runtime_class(&self, name: &str) -> Result<Option<Value>, Status> {
        let classes = self.builtin(&builtin::RUNTIME_CLASS)?;
        let found = self.find(&classes, "", name).await?;
        found.map(|found| found.to_value(&classes)).transpose()
    }
}

fn complete(class: &Value, spec: &mut Value) -> Result<(), String> {
    let cost = &class["overhead"]["podFixed"];
    check_overhead(cost, spec)?;
    if cost.is_object() {
        spec["overhead"] = cost.clone();
    }
    for (key, value) in class["scheduling"]["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten()
    {
        match spec["nodeSelector"].get(key) {
            Some(stated) if stated != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    value.as_str().unwrap_or_default(),
                    stated.as_str().unwrap_or_default()
                ));
            }
            _ => spec["nodeSelector"][key] = value.clone(),
        }
    }
    let more = class["scheduling"]["tolerations"]
        .as_array()
        .into_iter()
        .flatten();
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for toleration in more {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    if !tolerations.is_empty() {
        spec["tolerations"] = json!(tolerations);
    }
    Ok(())
}

/// A stated overhead must equal that of the class, and is rejected if the class has none.
fn check_overhead(cost: &Value, spec: &Value) -> Result<(), String> {
    let stated = &spec["overhead"];
    match (stated.is_object(), cost.is_object()) {
        (true, true) if stated != cost => {
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned())
        }
        (true, false) => Err(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned(),
        ),
        _ => Ok(()),
    }
}
