//! Resource slices: the devices of a node or a pool.

use serde_json::json;

use crate::fields::Selectable;
use crate::kind::{Generation, Kind};
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

