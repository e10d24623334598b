//! IP addresses: each cluster address that is taken.

use serde_json::json;
use watchkeeper_meta::validation::NameRule;

use crate::kind::Kind;
use crate::table::Column;
use crate::table::cells::reference;

/// What is particular to `ipaddresses`.
pub static KIND: Kind = Kind {
    group: "networking.k8s.io",
    name: "IPAddress",
    plural: "ipaddresses",
    // Named after what it is about, which its own rules check.
    names: NameRule::PathSegment,
    columns: COLUMNS,
    cells_beyond: &[Column::AGE],
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("ParentRef", |row| json!(reference(row.at("/spec/parentRef")))),
];

