//! Resource slices: the devices of a node or a pool.

use serde_json::json;

use crate::fields::Selectable;
use crate::kind::{BY_SCHEMA, Generation, Hooks, Kind};
use crate::rules::defaulting::items_mut;
use crate::rules::device_claims::date_taint;
use crate::table::Column;

/// What is particular to `resourceslices`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "ResourceSlice",
    plural: "resourceslices",
    generation: Generation::Spec,
    delete_returns_object: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    unselectable: Some(|field| {
        format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
    }),
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Node", |row| json!(row.text("/spec/nodeName"))),
    Column::text("Driver", |row| json!(row.text("/spec/driver"))),
    Column::text("Pool", |row| json!(row.text("/spec/pool/name"))),
    Column::AGE,
];

const SELECTABLE: &[Selectable] = &[
    Selectable::at("spec.nodeName", &["/spec/nodeName"]),
    Selectable::at("spec.driver", &["/spec/driver"]),
    Selectable::at("spec.pool.name", &["/spec/pool/name"]),
];

const HOOKS: Hooks = Hooks {
    date: |slice, now| {
        for device in items_mut(&mut slice["spec"], "devices") {
            items_mut(device, "taints").for_each(|taint| date_taint(Some(taint), now));
        }
    },
    ..BY_SCHEMA
};
