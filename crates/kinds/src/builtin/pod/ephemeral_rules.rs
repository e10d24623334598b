//! Debugging containers come to a running pod and stay as they came.

use serde_json::Value;

use crate::rules::place::{Faults, Place};

/// What is wrong with a change.
pub(crate) fn check_change(pod: &Place<'_, '_>, live: &Place<'_, '_>, faults: &mut Faults) {
    let (spec, old_spec) = (pod.field("spec"), live.field("spec"));
    let (new, old) = (
        spec.field("ephemeralContainers"),
        old_spec.field("ephemeralContainers"),
    );
    let find = |name: &Value| new.items().find(|container| container.value()["name"] == *name);
    for container in old.items() {
        let name = &container.value()["name"];
        let what = match find(name) {
            None => "removed",
            Some(new) if new.value() != container.value() => "changed",
            Some(_) => continue,
        };
        // The end of the line is Kubernetes'.
        let why = format!("existing ephemeral containers {name} may not be {what}\n");
        faults.push(new.forbidden(why));
    }
}
