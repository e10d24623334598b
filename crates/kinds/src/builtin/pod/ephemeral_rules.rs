//! Validation of `/ephemeralcontainers`: containers can be added, and are immutable afterwards.

use std::collections::HashMap;

use serde_json::Value;

use crate::rules::place::{Errors, Place};
use crate::rules::unified_diff;

/// Checks an update.
pub(crate) fn check_change(pod: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let (spec, old_spec) = (pod.field("spec"), live.field("spec"));
    let (new, old) = (
        spec.field("ephemeralContainers"),
        old_spec.field("ephemeralContainers"),
    );
    let name_of = |container: &Value| container["name"].as_str().unwrap_or_default().to_owned();
    // The first of several with one name counts.
    let mut found = HashMap::new();
    for container in new.items() {
        found.entry(name_of(container.value())).or_insert(container);
    }
    for container in old.items() {
        let name = &container.value()["name"];
        let (what, changes) = match found.get(&name_of(container.value())) {
            None => ("removed", String::new()),
            Some(new) if new.value() != container.value() => {
                let changes = unified_diff::of_structs("EphemeralContainer", container.value(), new.value());
                ("changed", changes)
            }
            Some(_) => continue,
        };
        let why = format!("existing ephemeral containers {name} may not be {what}\n{changes}");
        errors.push(new.forbidden(why));
    }
}
