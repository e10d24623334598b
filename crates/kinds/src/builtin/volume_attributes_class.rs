//! Volume attributes classes: how good a volume is.

use serde_json::json;

use crate::builtin::persistent_volume_claim::protect;
use crate::kind::{BY_SCHEMA, Hooks, Kind};
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
    ..BY_SCHEMA
};
