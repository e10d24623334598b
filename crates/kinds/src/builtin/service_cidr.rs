//! Service CIDRs: where cluster addresses come from.

use serde_json::json;

use crate::kind::Kind;
use crate::table::Column;
use crate::table::cells::joined;

/// What is particular to `servicecidrs`.
pub static KIND: Kind = Kind {
    group: "networking.k8s.io",
    name: "ServiceCIDR",
    plural: "servicecidrs",
    status_keeps_metadata: true,
    columns: COLUMNS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("CIDRs", |row| json!(joined(row.at("/spec/cidrs"), ","))),
    Column::AGE,
];

