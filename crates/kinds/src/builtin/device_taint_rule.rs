//! Device taint rules: devices that are not to be used.

use serde_json::json;

use crate::kind::{BY_SCHEMA, Generation, Hooks, Kind};
use crate::rules::device_claims::date_taint;
use crate::table::Column;

/// What is particular to `devicetaintrules`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "DeviceTaintRule",
    plural: "devicetaintrules",
    updates_unconditionally: false,
    status_keeps_metadata: true,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Key", |row| json!(row.text("/spec/taint/key"))),
    Column::text("Value", |row| json!(row.text("/spec/taint/value"))),
    Column::text("Effect", |row| json!(row.text("/spec/taint/effect"))),
    Column::text("TimeAdded", |row| row.age("/spec/taint/timeAdded")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    date: |rule, now| date_taint(rule.pointer_mut("/spec/taint"), now),
    ..BY_SCHEMA
};
