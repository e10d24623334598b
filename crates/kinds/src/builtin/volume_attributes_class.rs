//! Volume attributes classes: how good a volume is.

use serde_json::json;

use crate::builtin::persistent_volume_claim::protect;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::place::{Faults, Place};
use crate::rules::storage_classes::{check_parameters, check_provisioner, forbid_changes};
use crate::table::Column;

/// What is particular to `volumeattributesclasses`.
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
    prepare_for_create: |class| protect(class, "kubernetes.io/vac-protection"),
    check,
    check_change: |change, faults| forbid_changes(change, &["driverName", "parameters"], faults),
    change_first: true,
    ..PLAIN
};

fn check(class: &Place<'_, '_>, faults: &mut Faults) {
    let driver = class.field("driverName");
    driver.must_be_set(faults);
    check_provisioner(&driver, faults);
    let parameters = class.field("parameters");
    match parameters.len() {
        0 => faults.push(parameters.required("must contain at least one key/value pair")),
        _ => check_parameters(&parameters, faults),
    }
}
