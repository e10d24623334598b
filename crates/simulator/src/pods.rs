//! Predicates on pods, and creation from templates.

use std::time::Duration;

use serde_json::{Value, json};

use crate::item::Item;
use crate::time;

/// True if a pod has succeeded or failed.
pub(crate) fn has_ended(pod: &Item) -> bool {
    matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
}

/// True if a pod has not ended and is not being deleted.
pub(crate) fn is_active(pod: &Item) -> bool {
    !pod.is_deleting() && !has_ended(pod)
}

/// True if a pod is ready.
pub(crate) fn is_ready(pod: &Item) -> bool {
    pod.holds("Ready")
}

/// True if a pod has been ready for `min_ready_seconds`.
pub(crate) fn is_available(pod: &Item, min_ready_seconds: i64) -> bool {
    is_ready(pod) && until_available(pod, min_ready_seconds).is_none()
}

/// The time until the next ready pod becomes available.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Item>,
    min_ready_seconds: i64,
) -> Option<Duration> {
    let ready = pods.into_iter().filter(|pod| is_ready(pod));
    ready
        .filter_map(|pod| until_available(pod, min_ready_seconds))
        .min()
}

fn until_available(pod: &Item, min_ready_seconds: i64) -> Option<Duration> {
    if min_ready_seconds == 0 {
        return None;
    }
    let mut conditions = pod.list("/status/conditions").iter();
    let ready = conditions.find(|condition| condition["type"] == "Ready")?;
    time::left(time::read(&ready["lastTransitionTime"])?, min_ready_seconds)
}

/// A pod from a template, without a name.
pub(crate) fn from_template(owner: &Item, template: &Value) -> Value {
    let metadata = &template["metadata"];
    json!({
        "metadata": {
            "labels": metadata["labels"],
            "annotations": metadata["annotations"],
            "finalizers": metadata["finalizers"],
            "ownerReferences": [owner.as_controller()],
        },
        "spec": template["spec"],
    })
}
