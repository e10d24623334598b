//! VolumeAttributesClass: mutable attributes of volumes, such as throughput.

use serde_json::json;

use crate::builtin::persistent_volume_claim::protect;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::rules::storage_classes::{check_parameters, check_provisioner};
use crate::table::{Column, Row};

/// The kind served as `volumeattributesclasses`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "VolumeAttributesClass",
    plural: "volumeattributesclasses",
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

/// The annotation that marks a default class.
const DEFAULT_MARK: &str = "volumeattributesclass.alpha.kubernetes.io/is-default-class";

const COLUMNS: &[Column] = &[
    Column::text("Name", |row| json!(shown_name(row))).naming(),
    Column::text("DriverName", |row| json!(row.text("/driverName"))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    prepare_for_create: |class, _| protect(class, "kubernetes.io/vac-protection"),
    check,
    check_change,
    change_first: true,
    ..PLAIN
};

fn shown_name(row: &Row<'_>) -> String {
    let name = row.text("/metadata/name");
    match row.object["metadata"]["annotations"][DEFAULT_MARK] == "true" {
        true => format!("{name} (default)"),
        false => name,
    }
}

fn check(class: &Place<'_, '_>, errors: &mut Errors) {
    let driver = class.field("driverName");
    driver.must_be_set(errors);
    check_provisioner(&driver, errors);
    let parameters = class.field("parameters");
    match parameters.len() {
        0 => errors.push(parameters.required("must contain at least one key/value pair")),
        _ => check_parameters(&parameters, errors),
    }
}

/// Checks an update: nothing but metadata may change.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    for name in ["driverName", "parameters"] {
        let (new, live) = (change.new.field(name), change.live.field(name));
        if new.value() != live.value() {
            errors.push(new.forbidden(format!("updates to {name} are forbidden.")));
        }
    }
}
