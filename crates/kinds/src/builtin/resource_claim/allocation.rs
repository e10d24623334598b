//! Validation of a claim's status: the allocated devices, their state, and the pods that use them.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::builtin::pod;
use crate::kind::Change;
use crate::rules::device_claims::{
    Age, MAX_CONFIGURATIONS, MAX_PARAMETER_BYTES, RequestNames, check_configuration,
};
use crate::rules::devices::{
    Found, check_binding_conditions, check_label, check_pool, check_raw, check_tolerations,
};
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::check_driver;
use crate::rules::{conditions, declared};

const MAX_USERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_INTERFACE_BYTES: usize = 256;
const MAX_HARDWARE_ADDRESS_BYTES: usize = 128;
const MAX_ADDRESSES: usize = 16;
/// The origins of a device configuration.
const SOURCES: &[&str] = &["FromClaim", "FromClass"];

/// Checks a write of the status.
pub(super) fn check(change: &Change<'_>, errors: &mut Errors) {
    Found::of(|found| check_status(change, found), errors);
}

fn check_status(change: &Change<'_>, found: &mut Found) {
    let (status, live) = (change.new.field("status"), change.live.field("status"));
    let users = status.field("reservedFor");
    if found.has_at_most(MAX_USERS, &users) {
        for user in users.items() {
            for name in ["resource", "name", "uid"] {
                user.field(name).must_be_set(&mut found.errors);
            }
        }
        found.must_differ(&users, "ResourceClaimConsumerReference", |user| {
            user["uid"].clone()
        });
    }
    let allocation = status.field("allocation");
    let devices = status.field("devices");
    devices
        .items()
        .for_each(|device| check_device(&device, allocation.value(), found));
    found.must_differ(&devices, "AllocatedDeviceStatus", identity);
    check_users(change, &mut found.errors);
    let old = live.field("allocation");
    match (old.is_set(), allocation.is_set()) {
        (true, true) if old.value() != allocation.value() => {
            let why = "field cannot be modified once set";
            found.declared.push(allocation.invalid_for(Value::Null, why));
        }
        (false, true) => check_allocation(change, &allocation, found),
        _ => {}
    }
}

/// Checks `reservedFor`: the claim must be allocated, and a claim under deletion accepts no new users.
fn check_users(change: &Change<'_>, errors: &mut Errors) {
    let (status, live) = (change.new.field("status"), change.live.field("status"));
    let users = status.field("reservedFor");
    if users.len() == 0 {
        return;
    }
    if !status.field("allocation").is_set() {
        return errors.push(users.forbidden("may not be specified when `allocated` is not set"));
    }
    let metadata = change.new.field("metadata");
    let is_going = metadata.field("deletionTimestamp").is_set();
    let old = live.field("reservedFor");
    let is_new = |user: &Place<'_, '_>| !old.items().any(|old| old.value() == user.value());
    if is_going && users.items().any(|user| is_new(&user)) {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(users.forbidden(why));
    }
}

fn check_allocation(change: &Change<'_>, allocation: &Place<'_, '_>, found: &mut Found) {
    let names = RequestNames::of(&change.new.value()["spec"]["devices"]);
    let devices = allocation.field("devices");
    let results = devices.field("results");
    if found.has_at_most(MAX_RESULTS, &results) {
        results
            .items()
            .for_each(|result| check_result(&result, &names, found));
    }
    let configurations = devices.field("config");
    // Configurations come from the class and from the claim, up to the limit of each.
    if found.has_at_most(2 * MAX_CONFIGURATIONS, &configurations) {
        for configuration in configurations.items() {
            configuration
                .field("source")
                .must_be_one_of(SOURCES, &mut found.declared);
            names.check_all(&configuration.field("requests"), found);
            check_configuration(&configuration, Age::New, found);
        }
    }
    let nodes = allocation.field("nodeSelector");
    if nodes.is_set() {
        pod::check_node_selector(&nodes, &mut found.errors);
    }
}

fn check_result(result: &Place<'_, '_>, names: &RequestNames<'_>, found: &mut Found) {
    names.check(&result.field("request"), &mut found.errors);
    declared::check_driver(&result.field("driver"), &mut found.declared);
    declared::check_pool(&result.field("pool"), &mut found.declared);
    check_label(&result.field("device"), &mut found.errors);
    check_binding_conditions(result, found);
    check_tolerations(&result.field("tolerations"), found);
    check_share(&result.field("shareID"), &mut found.declared);
}

fn check_device(device: &Place<'_, '_>, allocation: &Value, found: &mut Found) {
    check_driver(&device.field("driver"), &mut found.errors);
    check_pool(&device.field("pool"), &mut found.errors);
    check_label(&device.field("device"), &mut found.errors);
    check_share(&device.field("shareID"), &mut found.declared);
    let errors = &mut found.errors;
    let results = allocation["devices"]["results"].as_array();
    // There are no more in a valid claim.
    let mut results = results.into_iter().flatten().take(MAX_RESULTS);
    if !results.any(|result| identity(result) == identity(device.value())) {
        errors.push(device.invalid_for(shown(device.value()), "must be an allocated device in the claim"));
    }
    let conditions = device.field("conditions");
    if conditions.len() > MAX_CONDITIONS {
        errors.push(conditions.too_many(MAX_CONDITIONS));
    }
    conditions::check(&conditions, errors);
    let data = device.field("data");
    if data.is_set() {
        check_raw(&data, Some(MAX_PARAMETER_BYTES), errors);
    }
    check_network(&device.field("networkData"), found);
}

/// The fields that identify a device.
fn identity(device: &Value) -> Value {
    let names = ["driver", "pool", "device", "shareID"];
    Value::from(names.map(|name| device[name].clone()).to_vec())
}

/// A device as errors show it.
fn shown(device: &Value) -> Value {
    let text = |name: &str| device[name].as_str().unwrap_or_default();
    let share = device["shareID"].as_str();
    json!({"Driver": text("driver"), "Pool": text("pool"), "Device": text("device"), "ShareID": share})
}

fn check_share(id: &Place<'_, '_>, errors: &mut Errors) {
    if id.is_set() {
        declared::check_uuid(id, errors);
    }
}

fn check_network(data: &Place<'_, '_>, found: &mut Found) {
    for (name, max) in [
        ("interfaceName", MAX_INTERFACE_BYTES),
        ("hardwareAddress", MAX_HARDWARE_ADDRESS_BYTES),
    ] {
        let field = data.field(name);
        if field.text().len() > max {
            found.declared.push(field.too_long(max));
        }
    }
    let addresses = data.field("ips");
    if found.has_at_most(MAX_ADDRESSES, &addresses) {
        addresses
            .items()
            .for_each(|address| check_interface_address(&address, &mut found.errors));
        found.must_be_unique(&addresses);
    }
}

/// Checks an address with the prefix length of its network.
fn check_interface_address(address: &Place<'_, '_>, errors: &mut Errors) {
    let parsed = address.text().split_once('/').and_then(|(ip, bits)| {
        let ip: IpAddr = ip.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        Some((ip, bits))
    });
    let canonical = parsed.map(|(ip, bits)| format!("{ip}/{bits}"));
    match canonical {
        None => errors.push(
            address.invalid("must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
        ),
        Some(canonical) if canonical != address.text() => {
            errors.push(address.invalid(format!("must be in canonical form ({canonical:?})")));
        }
        Some(_) => {}
    }
}
