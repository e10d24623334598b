//! API services: who serves a group and version.

use serde_json::{Value, json};
use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::Kind;
use crate::table::Column;
use crate::table::cells::{condition, text_at};

/// What is particular to `apiservices`.
pub static KIND: Kind = Kind {
    group: "apiregistration.k8s.io",
    name: "APIService",
    plural: "apiservices",
    status_keeps_metadata: true,
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    columns: COLUMNS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Service", |row| json!(shown_service(row.at("/spec/service")))),
    Column::text("Available", |row| json!(condition(row.object, "Available"))),
    Column::AGE,
];


fn shown_service(service: &Value) -> String {
    match service.is_null() {
        true => "Local".to_owned(),
        false => format!("{}/{}", text_at(service, "/namespace"), text_at(service, "/name")),
    }
}
