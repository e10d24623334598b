//! Defaults that the schema does not state, of kinds that have no other rules of their own.

use serde_json::{Value, json};

use super::defaulting::{fill_empty, items_mut};
use crate::definition::Definition;

/// Fills in what the client left open, if the kind is one of these.
pub(super) fn fill(definition: &Definition, object: &mut Value) {
    match (&*definition.resource.group, &*definition.resource.kind) {
        ("storage.k8s.io", "CSIDriver") => fill_driver(&mut object["spec"]),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => {
            set_number(&mut object["spec"], "matchingPrecedence", 1000);
        }
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            fill_priority_level(&mut object["spec"]);
        }
        ("resource.k8s.io", "ResourceClaim") => fill_claim(&mut object["spec"]),
        ("resource.k8s.io", "ResourceClaimTemplate") => fill_claim(&mut object["spec"]["spec"]),
        _ => {}
    }
}

/// What a driver does not say it does not do, except for attaching.
fn fill_driver(spec: &mut Value) {
    fill_empty(spec, "attachRequired", true);
    for name in [
        "podInfoOnMount",
        "storageCapacity",
        "requiresRepublish",
        "seLinuxMount",
    ] {
        fill_empty(spec, name, false);
    }
    fill_empty(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}

fn fill_priority_level(spec: &mut Value) {
    if let Some(limited) = spec.get_mut("limited").filter(|limited| limited.is_object()) {
        fill_empty(limited, "nominalConcurrencyShares", 30);
        fill_empty(limited, "lendablePercent", 0);
        if let Some(queuing) = limited.pointer_mut("/limitResponse/queuing") {
            set_number(queuing, "handSize", 8);
            set_number(queuing, "queues", 64);
            set_number(queuing, "queueLengthLimit", 50);
        }
    }
    if let Some(exempt) = spec.get_mut("exempt").filter(|exempt| exempt.is_object()) {
        fill_empty(exempt, "nominalConcurrencyShares", 0);
        fill_empty(exempt, "lendablePercent", 0);
    }
}

/// A request is for one device, unless it is for more or for all.
fn fill_claim(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else {
        return;
    };
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            fill_request(exactly);
        }
        items_mut(request, "firstAvailable").for_each(fill_request);
    }
}

fn fill_request(request: &mut Value) {
    fill_empty(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        set_number(request, "count", 1);
    }
    for toleration in items_mut(request, "tolerations") {
        fill_empty(toleration, "operator", "Equal");
    }
}

/// Sets a number that is zero, which here means that it is not set.
fn set_number(object: &mut Value, name: &str, default: i64) {
    if object.is_object() && object[name].as_i64().unwrap_or_default() == 0 {
        object[name] = json!(default);
    }
}
