//! CSI nodes: which storage drivers a node has.

use crate::kind::Kind;
use crate::table::Column;

/// What is particular to `csinodes`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "CSINode",
    plural: "csinodes",
    updates_unconditionally: false,
    delete_returns_object: true,
    columns: COLUMNS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Drivers", |row| row.len("/spec/drivers")),
    Column::AGE,
];

