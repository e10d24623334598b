//! What claims of devices and taints on devices leave open.

use serde_json::Value;

use crate::rules::defaulting::{fill_empty, fill_zero, items_mut};

/// A request is for one device, unless it is for more or for all.
pub(crate) fn fill_claim(spec: &mut Value) {
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
        fill_zero(request, "count", 1);
    }
    for toleration in items_mut(request, "tolerations") {
        fill_empty(toleration, "operator", "Equal");
    }
}

/// A taint holds from now on, unless it says since when.
pub(crate) fn date_taint(taint: Option<&mut Value>, now: &str) {
    if let Some(taint) = taint {
        fill_empty(taint, "timeAdded", now);
    }
}
