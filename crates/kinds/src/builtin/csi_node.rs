//! CSINode: the storage drivers installed on a node.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::qualified_name;

use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::check_driver;
use crate::table::Column;

const MAX_NODE_ID: usize = 256;

/// The kind served as `csinodes`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "CSINode",
    plural: "csinodes",
    updates_unconditionally: false,
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Drivers", |row| row.len("/spec/drivers")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |node, errors| check_drivers(&node.field("spec").field("drivers"), errors),
    check_change,
    ..PLAIN
};

fn check_drivers(drivers: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for driver in drivers.items() {
        let name = driver.field("name");
        check_driver(&name, errors);
        check_node_id(&driver.field("nodeID"), errors);
        driver
            .field("allocatable")
            .field("count")
            .must_not_be_negative(errors);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        check_topology_keys(&driver, errors);
    }
}

fn check_node_id(id: &Place<'_, '_>, errors: &mut Errors) {
    id.must_be_set(errors);
    if id.text().len() > MAX_NODE_ID {
        errors.push(id.invalid(format!("must be {MAX_NODE_ID} characters or less")));
    }
}

/// Checks topology keys. As in Kubernetes, errors show the driver's name instead of the key.
fn check_topology_keys(driver: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for key in driver.field("topologyKeys").texts() {
        if key.is_empty() {
            errors.push(driver.required(""));
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&driver.path(), key));
        }
        let reasons = qualified_name(key).into_iter();
        errors.extend(reasons.map(|why| driver.invalid_for(key, why)));
    }
}

/// Checks an update: a driver is immutable except for its allocatable volume count.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
    let (drivers, live) = (spec.field("drivers"), live.field("drivers"));
    for old in live.items() {
        let same = |driver: &Place<'_, '_>| driver.value()["name"] == old.value()["name"];
        for new in drivers.items().filter(same) {
            let new = without_allocatable(new.value());
            if new != without_allocatable(old.value()) {
                let shown = go_structs::structure("CSINodeDriver", &new);
                errors.push(drivers.invalid_in_go(shown, "field is immutable"));
            }
        }
    }
}

fn without_allocatable(driver: &Value) -> Value {
    let mut driver = driver.clone();
    if let Some(fields) = driver.as_object_mut() {
        fields.remove("allocatable");
    }
    driver
}
