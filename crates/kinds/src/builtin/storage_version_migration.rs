//! Storage version migrations: objects that are to be written again.

use serde_json::json;

use crate::kind::Kind;
use crate::table::Column;
use crate::table::cells::NONE;

/// What is particular to `storageversionmigrations`.
pub static KIND: Kind = Kind {
    group: "storagemigration.k8s.io",
    name: "StorageVersionMigration",
    plural: "storageversionmigrations",
    updates_unconditionally: false,
    status_keeps_metadata: true,
    columns: COLUMNS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::text("Name", |row| json!(row.text("/metadata/name"))),
    Column::text("Resource", |row| json!(row.text("/spec/resource/resource"))),
    Column::text("Status", |_| json!(NONE)),
];

