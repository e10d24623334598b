//! Priority classes: a number under a name.

use serde_json::{Value, json};
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{immutable, one_of, set_default, text};
use super::{Hooks, PLAIN};
use crate::metadata;

/// More than this is for the cluster's own parts.
const MAX_VALUE: i64 = 1_000_000_000;
const RESERVED_PREFIX: &str = "system-";
const RESERVED: &[(&str, i64)] = &[
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

pub(super) const HOOKS: Hooks = Hooks {
    default: |class| set_default(class, "preemptionPolicy", "PreemptLowerPriority"),
    prepare_for_create: |class| {
        // What counts never changes, so there is but one generation.
        metadata::of(class).insert("generation".to_owned(), json!(1));
    },
    faults,
    update_faults: |_, class, live| {
        let mut faults = Vec::new();
        if class["value"] != live["value"] {
            let why = "may not be changed in an update.";
            faults.push(FieldError::forbidden(&FieldPath::new("value"), why));
        }
        let name = "preemptionPolicy";
        immutable(&mut faults, &FieldPath::new(name), &class[name], &live[name]);
        faults
    },
    ..PLAIN
};

fn faults(class: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let name = metadata::text(class, "name");
    let value = class["value"].as_i64().unwrap_or_default();
    if name.starts_with(RESERVED_PREFIX) {
        if let Some(why) = misused(name, value) {
            let path = FieldPath::new("metadata").child("name");
            let why = format!(
                "priority class names with '{RESERVED_PREFIX}' prefix are reserved for system use only. error: {why}"
            );
            faults.push(FieldError::forbidden(&path, why));
        }
    } else if value > MAX_VALUE {
        let why = format!("maximum allowed value of a user defined priority is {MAX_VALUE}");
        faults.push(FieldError::forbidden(&FieldPath::new("value"), why));
    }
    let policy = text(class, "/preemptionPolicy");
    let known = ["PreemptLowerPriority", "Never"];
    one_of(&mut faults, &FieldPath::new("preemptionPolicy"), policy, &known);
    faults
}

fn misused(name: &str, value: i64) -> Option<String> {
    match RESERVED.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, wanted)) if *wanted != value => {
            Some(format!("value of {name} PriorityClass must be {wanted}"))
        }
        Some(_) => None,
    }
}
