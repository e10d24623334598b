//! DeviceTaintRule: taints devices so that they are not allocated.

use serde_json::json;

use crate::Part;
use crate::kind::{Change, Generation, Hooks, Kind, PLAIN};
use crate::rules::conditions;
use crate::rules::devices::{Found, check_label, check_pool, check_taint, date_taint};
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::check_driver;
use crate::table::Column;

const MAX_CONDITIONS: usize = 8;

/// The kind served as `devicetaintrules`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "DeviceTaintRule",
    plural: "devicetaintrules",
    updates_unconditionally: false,
    status_keeps_metadata: true,
    generation: Generation::Spec,
    columns: COLUMNS,
    status_without_table: true,
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
    check_new: |rule, errors| check(&rule.field("spec"), None, errors),
    check_change,
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, errors: &mut Errors) {
    let selector = spec.field("deviceSelector");
    for (name, rule) in [
        ("driver", check_driver as fn(&Place<'_, '_>, &mut Errors)),
        ("pool", check_pool),
        ("device", check_label),
    ] {
        let field = selector.field(name);
        if field.is_set() {
            rule(&field, errors);
        }
    }
    let old = live.map(|live| live.field("taint"));
    Found::of(
        |found| check_taint(&spec.field("taint"), old.as_ref(), found),
        errors,
    );
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    if change.part == Part::Status {
        let status = change.new.field("status");
        let conditions = status.field("conditions");
        conditions::check(&conditions, errors);
        if conditions.len() > MAX_CONDITIONS {
            errors.push(conditions.too_many(MAX_CONDITIONS));
        }
        return;
    }
    check(
        &change.new.field("spec"),
        Some(&change.live.field("spec")),
        errors,
    );
}
