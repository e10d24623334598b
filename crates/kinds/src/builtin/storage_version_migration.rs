//! StorageVersionMigration: rewrites the objects of a resource in the storage version.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1035_label, dns1123_subdomain};

use crate::Part;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::conditions;
use crate::rules::place::{Errors, Place};
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
    check: |migration, errors| check_target(&migration.field("spec").field("resource"), errors),
    check_change,
    ..PLAIN
};

/// Checks the name of the resource that is migrated.
fn check_target(target: &Place<'_, '_>, errors: &mut Errors) {
    let resource = target.field("resource");
    match resource.text().is_empty() {
        true => errors.push(resource.required("resource is required to be set")),
        false => resource.must_keep(dns1035_label, errors),
    }
    target.field("group").may_keep(dns1123_subdomain, errors);
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    if change.part == Part::Status {
        return check_status(&change.new.field("status"), &change.live.field("status"), errors);
    }
    let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
    if spec.value() != live.value() {
        let shown = format!(r#"{{"Resource":{}}}"#, spec.field("resource").value());
        errors.push(spec.invalid_in_go(shown, "field is immutable"));
    }
}

/// Checks the progress of a migration: its version is immutable, and an outcome is final.
fn check_status(status: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let conditions = status.field("conditions");
    conditions::check(&conditions, errors);
    let (version, before) = (status.field("resourceVersion"), live.field("resourceVersion"));
    if !before.text().is_empty() {
        version.text_must_stay(&before, errors);
    }
    let old = live.field("conditions");
    let [succeeded, failed, running] =
        ["Succeeded", "Failed", "Running"].map(|kind| holds(&conditions, kind));
    for (is_wrong, why) in [
        (
            succeeded && failed,
            "Both success and failed conditions cannot be true at the same time",
        ),
        (
            succeeded && running,
            "Running condition cannot be true when success condition is true",
        ),
        (
            failed && running,
            "Running condition cannot be true when failed condition is true",
        ),
        (
            holds(&old, "Succeeded") && !succeeded,
            "Success condition cannot be set to false once it is true",
        ),
        (
            holds(&old, "Failed") && !failed,
            "Failed condition cannot be set to false once it is true",
        ),
    ] {
        if is_wrong {
            errors.push(conditions.invalid(why));
        }
    }
}

fn holds(conditions: &Place<'_, '_>, kind: &str) -> bool {
    let mut all = conditions.items().map(|condition| condition.value());
    all.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// The type of the last condition that is true.
fn shown_status(migration: &Value) -> String {
    let conditions = migration.pointer("/status/conditions").and_then(Value::as_array);
    let mut holding = conditions.into_iter().flatten().rev();
    let holds = holding.find(|condition| condition["status"] == "True");
    or(
        holds.map(|it| text_at(it, "/type")).unwrap_or_default(),
        "Unknown",
    )
}
