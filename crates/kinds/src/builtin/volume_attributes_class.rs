//! VolumeAttributesClass: mutable attributes of volumes, such as throughput.

use serde_json::json;

use crate::builtin::persistent_volume_claim::protect;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::rules::storage_classes::{check_parameters, check_provisioner, forbid_changes};
use crate::table::Column;

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

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("DriverName", |row| json!(row.text("/driverName"))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    prepare_for_create: |class, _| protect(class, "kubernetes.io/vac-protection"),
    check,
    check_change: |change, errors| forbid_changes(change, &["driverName", "parameters"], errors),
    change_first: true,
    ..PLAIN
};

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
