//! Debugging containers come to a running pod and stay as they came.

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldPath};

use super::super::place::Faults;

/// What is wrong with a change.
pub(super) fn check_change(pod: &Value, live: &Value) -> Faults {
    let path = FieldPath::new("spec").child("ephemeralContainers");
    let list = |pod: &Value| {
        let containers = pod["spec"]["ephemeralContainers"].as_array();
        containers.cloned().unwrap_or_default()
    };
    let wanted = list(pod);
    let mut faults = Faults::new();
    for old in list(live) {
        let what = match wanted.iter().find(|new| new["name"] == old["name"]) {
            None => "removed",
            Some(new) if *new != old => "changed",
            Some(_) => continue,
        };
        // The end of the line is Kubernetes'.
        let why = format!(
            "existing ephemeral containers {} may not be {what}\n",
            old["name"]
        );
        faults.push(FieldError::forbidden(&path, why));
    }
    faults
}
