//! Node: tainted as not ready until its kubelet reports otherwise.

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{label_value, qualified_name};
use watchkeeper_meta::{BadValue, FieldError};

use crate::Warnings;
use crate::fields::Selectable;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::rules::resource_names::check_amount;
use crate::table::Column;
use crate::table::cells::{NONE, condition, or, text_at};

/// The taint of a node that has not reported itself ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The kind served as `nodes`.
pub static KIND: Kind = Kind {
    group: "",
    name: "Node",
    plural: "nodes",
    storage_name: Some("minions"),
    // A kubelet registers its node with the status in the create request.
    keeps_new_status: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", |row| json!(node_status(row.object))),
    Column::text("Roles", |row| json!(node_roles(row.object))),
    Column::AGE,
    Column::text("Version", |row| {
        json!(row.text("/status/nodeInfo/kubeletVersion"))
    }),
    Column::text("Internal-IP", |row| json!(node_address(row.object, "InternalIP"))).wide(),
    Column::text("External-IP", |row| json!(node_address(row.object, "ExternalIP"))).wide(),
    Column::text("OS-Image", |row| {
        row.text_or("/status/nodeInfo/osImage", "<unknown>")
    })
    .wide(),
    Column::text("Kernel-Version", |row| json!(kernel(row.object))).wide(),
    Column::text("Container-Runtime", |row| {
        row.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>")
    })
    .wide(),
];

const SELECTABLE: &[Selectable] = &[Selectable::boolean(
    "spec.unschedulable",
    &["/spec/unschedulable"],
)];

const HOOKS: Hooks = Hooks {
    default: |node| {
        default_allocatable(node);
        sync_ranges(node);
    },
    prepare_for_create: |node, _| taint_until_ready(node),
    check: |node, errors| {
        check_taints(node, errors);
        check_amounts(&node.field("status"), errors);
    },
    check_new: |node, errors| {
        let spec = node.field("spec");
        check_ranges(&spec.field("podCIDRs"), errors);
    },
    check_change,
    warn: |node, _, warnings| warn(&node["spec"], warnings),
    change_first: true,
    heeds: Some(|_| false),
    ..PLAIN
};

/// Warns of fields without effect.
fn warn(spec: &Value, warnings: &Warnings) {
    if spec.get("configSource").is_some_and(Value::is_object) {
        warnings.add("spec.configSource: the feature is removed");
    }
    if spec["externalID"].as_str().is_some_and(|id| !id.is_empty()) {
        warnings.add("spec.externalID: this field is deprecated, and is unused by Kubernetes");
    }
}

/// Keeps `podCIDR` equal to the first of `podCIDRs`.
fn sync_ranges(node: &mut Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (stated, first) = (text(&node["spec"]["podCIDR"]), text(&node["spec"]["podCIDRs"][0]));
    if stated.is_empty() && !first.is_empty() {
        node["spec"]["podCIDR"] = json!(first);
    } else if stated != first {
        node["spec"]["podCIDRs"] = json!([stated]);
    }
}

/// Fills in `allocatable` from `capacity`.
fn default_allocatable(node: &mut Value) {
    if let Some(capacity) = node["status"].get("capacity").cloned()
        && node["status"].get("allocatable").is_none()
    {
        node["status"]["allocatable"] = capacity;
    }
}

fn taint_until_ready(node: &mut Value) {
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    if taints.iter().any(|taint| taint["key"] == NOT_READY) {
        return;
    }
    taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    node["spec"]["taints"] = Value::Array(taints);
}

/// Checks the taints. Kubernetes' errors say `metadata.taints`, not `spec.taints`.
fn check_taints(node: &Place<'_, '_>, errors: &mut Errors) {
    let metadata = node.field("metadata").with_value(node.field("spec").value());
    let mut seen = HashSet::new();
    for taint in metadata.field("taints").items() {
        let (key, effect) = (taint.field("key"), taint.field("effect"));
        check_taint(&taint, errors);
        if !seen.insert((key.text(), effect.text())) {
            let shown = go_structs::structure("Taint", taint.value());
            let mut error = FieldError::duplicate(&taint.path(), Value::Null);
            error.value = BadValue::Printed(shown.into());
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

fn check_taint(taint: &Place<'_, '_>, errors: &mut Errors) {
    let (key, value) = (taint.field("key"), taint.field("value"));
    let reasons = qualified_name(key.text()).into_iter();
    errors.extend(reasons.map(|why| key.invalid_for(key.text(), why)));
    let problems = label_value(value.text());
    if !problems.is_empty() {
        errors.push(value.invalid(problems.join(";")));
    }
    taint.field("effect").must_be_one_of(EFFECTS, errors);
}

/// Checks `capacity` and `allocatable`.
fn check_amounts(status: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["capacity", "allocatable"] {
        let amounts = status.field(name);
        for (resource, amount) in amounts.entries() {
            // These paths name a resource as a field, not as a key.
            let amount = amounts.field(resource).with_value(amount.value());
            check_amount(resource, &amount, errors);
        }
    }
}

/// Checks the pod CIDRs: at most one per address family.
fn check_ranges(ranges: &Place<'_, '_>, errors: &mut Errors) {
    let before = errors.len();
    let families: Vec<bool> = ranges
        .items()
        .filter_map(|range| range.must_be_cidr(errors))
        .map(|range| range.is_ipv4())
        .collect();
    let is_repeated = |family: bool| families.iter().filter(|other| **other == family).count() > 1;
    if errors.len() == before && (is_repeated(true) || is_repeated(false)) {
        errors.push(ranges.invalid("may specify no more than one CIDR for each IP family"));
    }
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (spec, old) = (change.new.field("spec"), change.live.field("spec"));
    let status = change.new.field("status");
    let mut seen = HashSet::new();
    for address in status.field("addresses").items() {
        let of_address = ["type", "address"].map(|name| address.value()[name].as_str());
        if !seen.insert(of_address) {
            let shown = go_structs::structure("NodeAddress", address.value());
            let mut error = FieldError::duplicate(&address.path(), Value::Null);
            error.value = BadValue::Printed(shown.into());
            errors.push(error);
        }
    }
    let ranges = spec.field("podCIDRs");
    if ranges.value() != old.field("podCIDRs").value() {
        check_ranges(&ranges, errors);
    }
    if old.field("podCIDRs").len() > 0 && ranges.value() != old.field("podCIDRs").value() {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(ranges.forbidden(why));
    }
    check_provider(&spec.field("providerID"), &old.field("providerID"), errors);
}

/// Checks that the provider ID is immutable once set. Errors do not show the value.
fn check_provider(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let what = match (old.text(), new.text()) {
        ("", _) => return,
        (old, new) if old == new => return,
        (_, "") => "cleared",
        _ => "modified",
    };
    errors.push(new.invalid_for(Value::Null, format!("field cannot be {what} once set")));
}

fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready").as_str() {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    };
    match node["spec"]["unschedulable"].as_bool() {
        Some(true) => format!("{ready},SchedulingDisabled"),
        _ => ready.to_owned(),
    }
}

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<String> = labels
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) if !role.is_empty() => Some(role.to_owned()),
                _ if key == "kubernetes.io/role" && value != "" => value.as_str().map(str::to_owned),
                _ => None,
            },
        )
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or(roles.join(","), NONE)
}

fn node_address(node: &Value, kind: &str) -> String {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let found = addresses.into_iter().find(|address| address["type"] == kind);
    or(
        found
            .map(|address| text_at(address, "/address"))
            .unwrap_or_default(),
        NONE,
    )
}

fn kernel(node: &Value) -> String {
    let info = &node["status"]["nodeInfo"];
    let (version, architecture) = (text_at(info, "/kernelVersion"), text_at(info, "/architecture"));
    match (version.is_empty(), architecture.is_empty()) {
        (true, _) => "<unknown>".to_owned(),
        (false, true) => version,
        (false, false) => format!("{version} ({architecture})"),
    }
}
