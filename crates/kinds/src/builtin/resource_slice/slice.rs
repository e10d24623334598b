//! Validation of a slice's driver, pool, nodes and list of devices.

use serde_json::Value;
use watchkeeper_meta::validation::dns1123_subdomain;

use super::device::{check_counters, check_device};
use crate::builtin::pod;
use crate::rules::declared;
use crate::rules::devices::{Found, check_pool};
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::check_driver;

const MAX_DEVICES: usize = 128;
/// The largest number of devices if any has taints, counters or lists of values.
const MAX_RICH_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const SKIPPABLE: &[&str] = &["*", "NodePrepareResources", "NodeUnprepareResources"];

/// Checks the spec of a slice. Driver, pool and node name are immutable.
pub(super) fn check(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, errors: &mut Errors) {
    Found::of(|found| check_spec(spec, live, found), errors);
}

fn check_spec(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, found: &mut Found) {
    check_driver(&spec.field("driver"), &mut found.errors);
    let pool = spec.field("pool");
    check_pool_size(&pool, &mut found.errors);
    if let Some(live) = live {
        let old_pool = live.field("pool");
        must_stay(&pool.field("name"), &old_pool.field("name"), &mut found.errors);
        must_stay(&spec.field("driver"), &live.field("driver"), &mut found.errors);
        spec.field("nodeName")
            .must_stay(&live.field("nodeName"), &mut found.errors);
    }
    check_nodes(spec, &mut found.errors);
    let (counters, devices) = (spec.field("sharedCounters"), spec.field("devices"));
    if counters.is_set() && devices.is_set() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        found.errors.push(spec.invalid_for("", why));
    }
    check_devices(spec, live, found);
    if found.has_at_most(MAX_COUNTER_SETS, &counters) {
        counters
            .items()
            .for_each(|set| check_counters(&set, "name", found));
        found.must_differ(&counters, "CounterSet", |set| set["name"].clone());
    }
    check_partition_type(spec, found);
    check_skipped(&spec.field("skipNodeOperations"), found);
}

fn must_stay(name: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    if name.text() != live.text() {
        errors.push(name.invalid_for(name.text(), "field is immutable"));
    }
}

fn check_pool_size(pool: &Place<'_, '_>, errors: &mut Errors) {
    check_pool(&pool.field("name"), errors);
    let (count, generation) = (pool.field("resourceSliceCount"), pool.field("generation"));
    if count.number() <= 0 {
        errors.push(count.invalid_for(count.number(), "must be greater than zero"));
    }
    if generation.number() < 0 {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
}

/// Checks the node selection: one node, a selector, all nodes, or per device.
fn check_nodes(spec: &Place<'_, '_>, errors: &mut Errors) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut set = Vec::new();
    let node = spec.field("nodeName");
    match node.text() {
        "" if node.is_set() => {
            errors.push(node.invalid("must be either unset or set to a non-empty string"));
        }
        "" => {}
        _ => {
            set.push("`nodeName`");
            node.must_keep(dns1123_subdomain, errors);
        }
    }
    let selector = spec.field("nodeSelector");
    if selector.is_set() {
        set.push("`nodeSelector`");
        pod::check_node_selector(&selector, errors);
        let terms = selector.field("nodeSelectorTerms");
        if terms.len() != 1 {
            errors.push(terms.invalid("must have exactly one node selector term"));
        }
    }
    for (name, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        let flag = spec.field(name);
        match flag.is_true() {
            true => set.push(shown),
            false if flag.is_set() => errors.push(flag.invalid("must be either unset or set to true")),
            false => {}
        }
    }
    match set.len() {
        0 => errors.push(spec.required(ONE)),
        1 => {}
        _ => {
            let why = format!("{ONE}, but multiple fields are set");
            errors.push(spec.invalid_for(format!("{{{}}}", set.join(", ")), why));
        }
    }
}

fn check_devices(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, found: &mut Found) {
    let devices = spec.field("devices");
    let is_rich = devices.items().any(|device| is_rich(device.value()));
    let max = if is_rich { MAX_RICH_DEVICES } else { MAX_DEVICES };
    if devices.len() > max {
        return found.errors.push(devices.too_many(max));
    }
    let per_device = spec.field("perDeviceNodeSelection").is_true();
    let old = live.map(|live| live.field("devices"));
    for device in devices.items() {
        let same = |old: &Place<'_, '_>| old.value()["name"] == device.value()["name"];
        let old = old.as_ref().and_then(|devices| devices.items().find(same));
        check_device(&device, old.as_ref(), per_device, found);
    }
    let mut names = Vec::new();
    for device in devices.items() {
        let name = device.value()["name"].as_str().unwrap_or_default();
        match names.contains(&name) {
            true => found
                .errors
                .push(device.with_value(&Value::from(name)).duplicate()),
            false => names.push(name),
        }
    }
}

fn is_rich(device: &Value) -> bool {
    let has = |name: &str| device[name].as_array().is_some_and(|list| !list.is_empty());
    let attributes = device["attributes"].as_object();
    let mut attributes = attributes.into_iter().flat_map(|all| all.values());
    let is_list = |attribute: &Value| {
        let mut lists = ["bools", "ints", "strings", "versions"].into_iter();
        lists.any(|list| !attribute[list].is_null())
    };
    has("taints") || has("consumesCounters") || attributes.any(is_list)
}

/// Checks that the attribute named by `partitionTypeAttribute` is set on all partitions.
fn check_partition_type(spec: &Place<'_, '_>, found: &mut Found) {
    let attribute = spec.field("partitionTypeAttribute");
    if !attribute.is_set() {
        return;
    }
    let devices = spec.field("devices");
    let consumes = |device: &Place<'_, '_>| device.field("consumesCounters").len() > 0;
    if !devices.items().any(|device| consumes(&device)) {
        let why = "may only be set on a slice which declares devices that consume counters";
        found.errors.push(attribute.invalid(why));
    }
    let before = found.declared.len();
    declared::check_fully_qualified(&attribute, &mut found.declared);
    if found.declared.len() > before {
        return;
    }
    let name = attribute.text();
    let own = format!("{}/", spec.field("driver").text());
    for device in devices.items().filter(consumes) {
        let attributes = device.field("attributes");
        let bare = name.strip_prefix(&own).unwrap_or(name);
        let said = [name, bare].map(|name| attributes.entry(name).value());
        let at = attributes.entry(name);
        match said.into_iter().find(|value| !value.is_null()) {
            None => found.errors.push(at.required(
                "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set",
            )),
            Some(value) if value["string"].is_null() => {
                let why = "must be a string value because `partitionTypeAttribute` names this attribute";
                found.errors.push(at.invalid_for(value.clone(), why));
            }
            Some(_) => {}
        }
    }
}

/// Checks the kubelet calls that are skipped for these devices.
fn check_skipped(skipped: &Place<'_, '_>, found: &mut Found) {
    let has = |name: &str| skipped.texts().any(|text| text == name);
    if has(SKIPPABLE[1]) && !has(SKIPPABLE[2]) && !has(SKIPPABLE[0]) {
        let why = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped";
        found.errors.push(skipped.invalid(why));
    }
    found.must_be_unique(skipped);
    skipped
        .items()
        .for_each(|operation| operation.is_one_of(SKIPPABLE, &mut found.declared));
}
