//! Storage version migrations: objects that are to be written again.

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::table::Column;
use crate::table::cells::{or, text_at};

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
    Column::text("Status", |row| json!(shown_status(row.object))),
];

/// The last thing that is true of a migration.
fn shown_status(migration: &Value) -> String {
    let conditions = migration.pointer("/status/conditions").and_then(Value::as_array);
    let mut holding = conditions.into_iter().flatten().rev();
    let holds = holding.find(|condition| condition["status"] == "True");
    or(holds.map(|it| text_at(it, "/type")).unwrap_or_default(), "Unknown")
}
