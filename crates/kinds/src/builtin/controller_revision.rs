//! ControllerRevision: an immutable snapshot of the state of a StatefulSet or DaemonSet.

use serde_json::{Value, json};

use crate::kind::{Hooks, Kind, PLAIN};
use crate::table::Column;
use crate::table::cells::{NONE, text_at};

/// The kind served as `controllerrevisions`.
pub static KIND: Kind = Kind {
    group: "apps",
    name: "ControllerRevision",
    plural: "controllerrevisions",
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Controller", |row| json!(controller(row.object))),
    Column::text("Revision", |row| row.count("/revision")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |revision, errors| {
        revision.field("revision").must_not_be_negative(errors);
    },
    check_new: |revision, errors| {
        let data = revision.field("data");
        if !data.is_set() {
            // Kubernetes reports this error before those of the metadata.
            errors.push_first(data.required("data is mandatory"));
        }
    },
    check_change: |change, errors| {
        let (new, live) = (change.new.field("data"), change.live.field("data"));
        new.must_stay(&live, errors);
    },
    ..PLAIN
};

fn controller(object: &Value) -> String {
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    let Some(owner) = owners.into_iter().find(|owner| owner["controller"] == true) else {
        return NONE.to_owned();
    };
    let group = text_at(owner, "/apiVersion");
    let group = group
        .split_once('/')
        .map(|(group, _)| format!(".{group}"))
        .unwrap_or_default();
    format!(
        "{}{group}/{}",
        text_at(owner, "/kind").to_lowercase(),
        text_at(owner, "/name")
    )
}
