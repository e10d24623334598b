//! ComponentStatus: the health of control plane components. It is computed, never stored.

use serde_json::json;

use crate::kind::Kind;
use crate::table::{Column, Row};

/// The kind served as `componentstatuses`.
pub static KIND: Kind = Kind {
    group: "",
    name: "ComponentStatus",
    plural: "componentstatuses",
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    columns: COLUMNS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", |row| json!(health(row))),
    Column::text("Message", |row| json!(row.text("/conditions/0/message"))),
    Column::text("Error", |row| json!(row.text("/conditions/0/error"))),
];

fn health(row: &Row<'_>) -> &'static str {
    match row.text("/conditions/0/status").as_str() {
        "True" => "Healthy",
        "" => "Unknown",
        _ => "Unhealthy",
    }
}
