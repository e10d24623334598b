//! Validation of one device: attributes, capacities, taints and nodes.

use serde_json::Value;
use watchkeeper_meta::validation::{dns1123_subdomain, short_name};

use super::capacity::check_capacities;
use crate::builtin::pod;
use crate::rules::devices::{Found, check_binding_conditions, check_label, check_qualified, check_taint};
use crate::rules::place::{Errors, Place};

const MAX_ENTRIES: usize = 32;
const MAX_VALUES: usize = 48;
const MAX_TAINTS: usize = 16;
const MAX_CONSUMPTIONS: usize = 2;
const MAX_COUNTERS: usize = 32;
const MAX_VALUE_BYTES: usize = 64;
/// The value fields of an attribute, in the order of error texts.
const VALUES: [&str; 8] = [
    "int", "bool", "string", "version", "ints", "bools", "strings", "versions",
];

/// Checks a device. Expensive checks are skipped for parts that are unchanged.
pub(super) fn check_device(
    device: &Place<'_, '_>,
    old: Option<&Place<'_, '_>>,
    per_device: bool,
    found: &mut Found,
) {
    check_label(&device.field("name"), &mut found.errors);
    let (attributes, capacity) = (device.field("attributes"), device.field("capacity"));
    check_sizes(device, &mut found.errors);
    for (name, attribute) in attributes.entries() {
        check_qualified(name, &attributes, &mut found.errors);
        check_attribute(&attribute, found);
    }
    let has_changed =
        |name: &str| old.is_none_or(|old| old.field(name).value() != device.field(name).value());
    if has_changed("capacity") {
        let is_shared = device.field("allowMultipleAllocations").is_true();
        check_capacities(&capacity, is_shared, &mut found.errors);
    }
    let taints = device.field("taints");
    if has_changed("taints") {
        match taints.len() > MAX_TAINTS {
            true => found.errors.push(taints.too_many(MAX_TAINTS)),
            false => taints.items().for_each(|taint| check_taint(&taint, None, found)),
        }
    }
    let consumed = device.field("consumesCounters");
    if found.has_at_most(MAX_CONSUMPTIONS, &consumed) {
        consumed
            .items()
            .for_each(|set| check_counters(&set, "counterSet", found));
        found.must_differ(&consumed, "DeviceCounterConsumption", |set| {
            set["counterSet"].clone()
        });
    }
    check_nodes(device, per_device, &mut found.errors);
    check_binding_conditions(device, found);
}

fn check_sizes(device: &Place<'_, '_>, errors: &mut Errors) {
    let attributes = device.field("attributes");
    let entries = attributes.len() + device.field("capacity").len();
    if entries > MAX_ENTRIES {
        let why = format!("the total number of attributes and capacities must not exceed {MAX_ENTRIES}");
        errors.push(device.invalid_for(entries, why));
    }
    let count = |(_, attribute): (&str, Place<'_, '_>)| {
        let lists = VALUES[4..].iter().map(|name| attribute.field(name).len());
        lists.sum::<usize>().max(1)
    };
    let values: usize = attributes.entries().map(count).sum();
    if values > MAX_VALUES {
        let why = format!("the total number of attribute values must not exceed {MAX_VALUES}");
        errors.push(device.invalid_for(values, why));
    }
}

/// Checks that an attribute has exactly one value or list of values.
fn check_attribute(attribute: &Place<'_, '_>, found: &mut Found) {
    check_text(&attribute.field("string"), &mut found.errors);
    let version = attribute.field("version");
    if version.is_set() {
        check_version(&version, &mut found.errors);
    }
    for name in &VALUES[4..] {
        let list = attribute.field(name);
        if list.is_set() && list.len() == 0 {
            let why = "must not be empty if specified";
            found.errors.push(list.invalid(why));
        }
        for value in list.items() {
            match *name {
                "strings" => check_text(&value, &mut found.declared),
                "versions" => check_version(&value, &mut found.errors),
                _ => {}
            }
        }
    }
    let all = VALUES.map(|name| format!("`{name}`")).join(", ");
    let is_set = |name: &&str| attribute.field(name).is_set();
    let set: Vec<&str> = VALUES.into_iter().filter(is_set).collect();
    match set.len() {
        0 => {
            let why = format!("must specify one of: {all}");
            found.declared.push(attribute.invalid_for("", why));
        }
        1 => {}
        _ => {
            let why = format!("must specify exactly one of: {all}");
            let shown = format!("{{{}}}", set.join(", "));
            found.declared.push(attribute.invalid_for(shown, why));
        }
    }
}

fn check_text(text: &Place<'_, '_>, errors: &mut Errors) {
    if text.text().len() > MAX_VALUE_BYTES {
        errors.push(text.too_long(MAX_VALUE_BYTES));
    }
}

fn check_version(version: &Place<'_, '_>, errors: &mut Errors) {
    if !is_semantic_version(version.text()) {
        errors.push(version.invalid("must be a string compatible with semver.org spec 2.0.0"));
    }
    check_text(version, errors);
}

fn is_semantic_version(text: &str) -> bool {
    let is_word = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty() && part.bytes().all(fits)
    };
    let is_number = |part: &str| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        !part.is_empty() && digits && (part == "0" || !part.starts_with('0'))
    };
    let is_before = |part: &str| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        is_word(part) && (!digits || is_number(part))
    };
    let (rest, build) = text.split_once('+').unwrap_or((text, "0"));
    let (core, before) = rest.split_once('-').unwrap_or((rest, "0"));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && before.split('.').all(is_before)
        && build.split('.').all(is_word)
}

/// Checks counters that a slice shares or a device consumes; `key` is the field that names the counter set.
pub(super) fn check_counters(set: &Place<'_, '_>, key: &str, found: &mut Found) {
    let name = set.field(key);
    name.must_be_set_and_keep(short_name, &mut found.declared);
    let counters = set.field("counters");
    match counters.len() {
        0 => found.declared.push(counters.required("")),
        count if count > MAX_COUNTERS => found.errors.push(counters.too_many(MAX_COUNTERS)),
        _ => {
            for (name, _) in counters.entries() {
                counters
                    .with_value(&Value::from(name))
                    .must_keep(short_name, &mut found.declared);
            }
        }
    }
}

/// Checks the nodes of a device, which are set only if the slice selects nodes per device.
fn check_nodes(device: &Place<'_, '_>, per_device: bool, errors: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                       `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let [node, selector, all] = ["nodeName", "nodeSelector", "allNodes"].map(|name| device.field(name));
    if !per_device {
        if node.is_set() || selector.is_set() || all.is_set() {
            errors.push(device.invalid_for(
                Value::Null,
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
                 in the ResourceSlice spec",
            ));
        }
        return;
    }
    let mut set = Vec::new();
    match node.text() {
        "" if node.is_set() => errors.push(node.invalid("must not be empty")),
        "" => {}
        _ => {
            set.push("`nodeName`");
            node.must_keep(dns1123_subdomain, errors);
        }
    }
    if selector.is_set() {
        set.push("`nodeSelector`");
        pod::check_node_selector(&selector, errors);
    }
    match all.is_true() {
        true => set.push("`allNodes`"),
        false if all.is_set() => errors.push(all.invalid("must be either unset or set to true")),
        false => {}
    }
    match set.len() {
        0 => errors.push(device.required(ONE)),
        1 => {}
        _ => errors.push(device.invalid_for(format!("{{{}}}", set.join(", ")), ONE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for (text, is_one) in [
            ("1.2.3", true),
            ("0.0.0-alpha.1+build.5", true),
            ("1.2.3-0a", true),
            ("1.2", false),
            ("01.2.3", false),
            ("1.2.3-01", false),
            ("1.2.3-", false),
            ("1.2.3+", false),
            ("v1.2.3", false),
        ] {
            assert_eq!(is_semantic_version(text), is_one, "{text}");
        }
    }
}
