//! Limit ranges: what one pod, container or claim may ask for.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::qualified_name;
use watchkeeper_meta::{FieldError, FieldPath};
use watchkeeper_wire::values::Quantity;

use super::check::{items, text};
use super::defaulting::items_mut;
use super::formats::{each, entries, quantity};
use super::{Hooks, PLAIN};

pub(super) const HOOKS: Hooks = Hooks {
    default: |range| {
        let Some(spec) = range.get_mut("spec") else {
            return;
        };
        for limit in items_mut(spec, "limits").filter(|limit| limit["type"] == "Container") {
            // What is not said follows from what is, in this order.
            inherit(limit, "max", "default");
            inherit(limit, "default", "defaultRequest");
            inherit(limit, "min", "defaultRequest");
        }
    },
    faults,
    ..PLAIN
};

fn inherit(limit: &mut Value, from: &str, to: &str) {
    let known: Vec<(String, Value)> = entries(limit, &format!("/{from}"))
        .map(|(name, amount)| (name.clone(), amount.clone()))
        .collect();
    for (name, amount) in known {
        if !limit[to].is_object() {
            limit[to] = json!({});
        }
        if limit[to].get(&name).is_none() {
            limit[to][name] = amount;
        }
    }
}

fn faults(range: &Value) -> Vec<FieldError> {
    let path = FieldPath::new("spec").child("limits");
    let mut faults = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, limit) in items(range, "/spec/limits").enumerate() {
        let path = path.index(index);
        let kind = text(limit, "/type");
        type_faults(kind, &path.child("type"), &mut faults);
        if seen.contains(&kind) {
            faults.push(FieldError::duplicate(&path.child("type"), kind));
        }
        seen.push(kind);
        limit_faults(limit, kind, &path, &mut faults);
    }
    faults
}

fn type_faults(kind: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let problems = qualified_name(kind);
    if !problems.is_empty() {
        return each(faults, path, kind, problems);
    }
    if !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
        each(
            faults,
            path,
            kind,
            ["must be a standard limit type or fully qualified"],
        );
    }
}

fn limit_faults(limit: &Value, kind: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let has = |bound: &str| entries(limit, &format!("/{bound}")).next().is_some();
    if kind == "Pod" {
        for name in ["default", "defaultRequest"] {
            if has(name) {
                let why = "may not be specified when `type` is 'Pod'";
                faults.push(FieldError::forbidden(&path.child(name), why));
            }
        }
    }
    let storage = |bound: &str| limit[bound].get("storage").is_some();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        faults.push(FieldError::required(&path.child("limits"), why));
    }
    let bounds = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let names: BTreeSet<&String> = bounds
        .iter()
        .flat_map(|bound| entries(limit, &format!("/{bound}")))
        .map(|(name, _)| name)
        .collect();
    for name in names {
        amount_faults(limit, name, path, faults);
    }
}

fn amount_faults(limit: &Value, name: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let amount = |bound: &str| limit[bound].get(name).map(quantity);
    let (min, max) = (amount("min"), amount("max"));
    let (default, request) = (amount("default"), amount("defaultRequest"));
    // Which is smaller than it may be, which bound says so, and whether the fault shows the smaller of the two.
    let mut in_order =
        |low: (&str, &Option<Quantity>), high: (&str, &Option<Quantity>), at: &str, shows_low: bool| {
            let (Some(lower), Some(higher)) = (low.1, high.1) else {
                return;
            };
            if lower > higher {
                let why = format!(
                    "{} value {lower} is greater than {} value {higher}",
                    low.0, high.0
                );
                let shown = if shows_low { lower } else { higher };
                faults.push(FieldError::invalid(
                    &path.child(at).key(name),
                    shown.to_string(),
                    why,
                ));
            }
        };
    in_order(("min", &min), ("max", &max), "min", true);
    in_order(
        ("min", &min),
        ("default request", &request),
        "defaultRequest",
        false,
    );
    in_order(
        ("default request", &request),
        ("max", &max),
        "defaultRequest",
        true,
    );
    in_order(
        ("default request", &request),
        ("default limit", &default),
        "defaultRequest",
        true,
    );
    in_order(("min", &min), ("default", &default), "default", true);
    in_order(("default", &default), ("max", &max), "default", false);
    if let Some(ratio) = amount("maxLimitRequestRatio")
        && ratio.to_milli().is_some_and(|milli| milli < 1000)
    {
        let path = path.child("maxLimitRequestRatio").key(name);
        let why = format!("ratio {ratio} is less than 1");
        faults.push(FieldError::invalid(&path, ratio.to_string(), why));
    }
}
