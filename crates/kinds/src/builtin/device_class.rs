//! Device classes: what kind of devices can be claimed.

use crate::kind::{Generation, Kind};
use crate::table::Column;

/// What is particular to `deviceclasses`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "DeviceClass",
    plural: "deviceclasses",
    generation: Generation::Spec,
    delete_returns_object: true,
    columns: COLUMNS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::AGE,
];

