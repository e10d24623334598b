//! API services: who serves a group and version.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{FinalizerRule, NameRule};

use crate::kind::{BY_SCHEMA, Hooks, Kind};
use crate::table::Column;
use crate::table::cells::{condition, text_at};

/// What is particular to `apiservices`.
pub static KIND: Kind = Kind {
    group: "apiregistration.k8s.io",
    name: "APIService",
    plural: "apiservices",
    // Named after what it is about, which its own rules check.
    names: NameRule::PathSegment,
    status_keeps_metadata: true,
    finalizers: FinalizerRule::AnyQualifiedName,
    updates_unconditionally: false,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Service", |row| json!(shown_service(row.at("/spec/service")))),
    Column::text("Available", |row| json!(condition(row.object, "Available"))),
    Column::AGE,
];


const HOOKS: Hooks = Hooks {
    prepare_for_create: |service| {
        // What this server serves itself needs nobody to look whether it answers.
        if service["spec"]["service"].is_null() {
            let condition = json!({
                "type": "Available",
                "status": "True",
                "lastTransitionTime": service["metadata"]["creationTimestamp"],
                "reason": "Local",
                "message": "Local APIServices are always available",
            });
            service["status"] = json!({"conditions": [condition]});
        }
    },
    ..BY_SCHEMA
};

fn shown_service(service: &Value) -> String {
    match service.is_null() {
        true => "Local".to_owned(),
        false => format!("{}/{}", text_at(service, "/namespace"), text_at(service, "/name")),
    }
}
