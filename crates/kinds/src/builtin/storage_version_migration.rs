//! StorageVersionMigration: rewrites the objects of a resource in the storage version.

use serde_json::{Value, json};

use crate::Part;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::conditions;
use crate::rules::place::Errors;
use crate::table::Column;
use crate::table::cells::{or, text_at};

/// The kind served as `storageversionmigrations`.
pub static KIND: Kind = Kind {
    group: "storagemigration.k8s.io",
    name: "StorageVersionMigration",
    plural: "storageversionmigrations",
    updates_unconditionally: false,
    status_keeps_metadata: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::text("Name", |row| json!(row.text("/metadata/name"))),
    Column::text("Resource", |row| json!(row.text("/spec/resource/resource"))),
    Column::text("Status", |row| json!(shown_status(row.object))),
];

const HOOKS: Hooks = Hooks {
    check: |migration, errors| {
        let spec = migration.field("spec");
        let resource = spec.field("resource");
        let resource = resource.field("resource");
        if resource.text().is_empty() {
            errors.push(resource.required("resource is required to be set"));
        }
    },
    check_change,
    ..PLAIN
};

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    if change.part == Part::Status {
        let status = change.new.field("status");
        return conditions::check(&status.field("conditions"), errors);
    }
    let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
    spec.must_stay(&live, errors);
}

/// The type of the last condition that is true.
fn shown_status(migration: &Value) -> String {
    let conditions = migration.pointer("/status/conditions").and_then(Value::as_array);
    let mut holding = conditions.into_iter().flatten().rev();
    let holds = holding.find(|condition| condition["status"] == "True");
    or(holds.map(|it| text_at(it, "/type")).unwrap_or_default(), "Unknown")
}
