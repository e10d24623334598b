//! CSI storage capacities: how much room a class has somewhere.

use crate::kind::Kind;
use crate::table::Column;

/// What is particular to `csistoragecapacities`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "CSIStorageCapacity",
    plural: "csistoragecapacities",
    updates_unconditionally: false,
    columns: COLUMNS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::CREATED_AT,
];

