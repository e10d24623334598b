//! Resource quotas: what a namespace may use in all.

use serde_json::Value;
use watchkeeper_meta::validation::qualified_name;
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::items;
use super::formats::{each, entries, quantity};
use super::{Hooks, PLAIN};
use crate::update::Part;

/// Amounts that come in whole numbers.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Amounts that are measured.
const MEASURED: &[&str] = &[
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// Scopes, and whether they apply to amounts other than a number of pods.
const SCOPES: &[(&str, bool)] = &[
    ("BestEffort", false),
    ("CrossNamespacePodAffinity", true),
    ("NotBestEffort", true),
    ("NotTerminating", true),
    ("PriorityClass", true),
    ("Terminating", true),
    ("VolumeAttributesClass", true),
];

/// Scopes that no pod is in at once.
const OPPOSITES: &[(&str, &str)] = &[("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];

pub(super) const HOOKS: Hooks = Hooks {
    faults: |quota| {
        let spec = FieldPath::new("spec");
        let mut faults = amount_faults(quota, "/spec/hard", &spec.child("hard"));
        scope_faults(quota, &spec.child("scopes"), &mut faults);
        faults
    },
    update_faults: |part, quota, live| match part {
        Part::Status => {
            let status = FieldPath::new("status");
            let mut faults = amount_faults(quota, "/status/hard", &status.child("hard"));
            faults.extend(amount_faults(quota, "/status/used", &status.child("used")));
            faults
        }
        _ => update_faults(quota, live),
    },
    ..PLAIN
};

fn amount_faults(quota: &Value, pointer: &str, path: &FieldPath) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (name, amount) in entries(quota, pointer) {
        let path = path.key(name);
        name_faults(name, &path, &mut faults);
        let amount = quantity(amount);
        if amount.is_negative() {
            let why = "must be greater than or equal to 0";
            faults.push(FieldError::invalid(&path, amount.to_string(), why));
        }
        let is_whole = amount.to_milli().is_none_or(|milli| milli % 1000 == 0);
        if is_counted(name) && !is_whole {
            faults.push(FieldError::invalid(
                &path,
                amount.to_string(),
                "must be an integer",
            ));
        }
    }
    faults
}

fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || (name.contains('/') && !name.contains("kubernetes.io/"))
}

fn is_for_quota(name: &str) -> bool {
    let is_huge_page = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    COUNTED.contains(&name) || MEASURED.contains(&name) || is_huge_page
}

fn name_faults(name: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let problems = qualified_name(name);
    let is_qualified = problems.is_empty();
    each(faults, path, name, problems);
    if name.contains('/') || is_for_quota(name) {
        return;
    }
    if is_qualified && name != "storage" {
        each(
            faults,
            path,
            name,
            ["must be a standard resource type or fully qualified"],
        );
    }
    each(faults, path, name, ["must be a standard resource for quota"]);
}

fn scope_faults(quota: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let stated: Vec<&str> = items(quota, "/spec/scopes").filter_map(Value::as_str).collect();
    let mut refuse = |why: &str| faults.push(FieldError::invalid(path, quota["spec"]["scopes"].clone(), why));
    for scope in &stated {
        let Some((_, is_wide)) = SCOPES.iter().find(|(known, _)| known == scope) else {
            refuse("unsupported scope");
            continue;
        };
        for (name, _) in entries(quota, "/spec/hard").filter(|(name, _)| is_for_quota(name)) {
            let fits = name == "pods" || (*is_wide && MEASURED.contains(&name.as_str()));
            if !fits {
                refuse("unsupported scope applied to resource");
            }
        }
    }
    for (one, other) in OPPOSITES {
        if stated.contains(one) && stated.contains(other) {
            refuse("conflicting scopes");
        }
    }
}

fn update_faults(quota: &Value, live: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut check = |name: &str, same: bool| {
        if !same {
            let shown = quota["spec"].get(name).cloned().unwrap_or_default();
            let path = FieldPath::new("spec").child(name);
            faults.push(FieldError::invalid(&path, shown, "field is immutable"));
        }
    };
    let scopes = |object: &Value| {
        let mut scopes: Vec<String> = items(object, "/spec/scopes").map(Value::to_string).collect();
        scopes.sort();
        scopes
    };
    check("scopes", scopes(quota) == scopes(live));
    check(
        "scopeSelector",
        quota["spec"].get("scopeSelector") == live["spec"].get("scopeSelector"),
    );
    faults
}
