//! Resource claims: devices that a pod asks for.

use serde_json::{Value, json};

use crate::kind::{BY_SCHEMA, Hooks, Kind};
use crate::rules::device_claims::fill_claim;
use crate::table::Column;

/// What is particular to `resourceclaims`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "ResourceClaim",
    plural: "resourceclaims",
    status_keeps_metadata: true,
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("State", |row| json!(shown_state(row.object))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |claim| fill_claim(&mut claim["spec"]),
    ..BY_SCHEMA
};


fn shown_state(claim: &Value) -> String {
    let mut words = Vec::new();
    words.extend((!claim["metadata"]["deletionTimestamp"].is_null()).then_some("deleted"));
    if claim["status"]["allocation"].is_null() {
        words.extend(
            claim["metadata"]["deletionTimestamp"]
                .is_null()
                .then_some("pending"),
        );
    } else {
        words.push("allocated");
        let reserved = claim["status"]["reservedFor"]
            .as_array()
            .is_some_and(|users| !users.is_empty());
        words.extend(reserved.then_some("reserved"));
    }
    words.join(",")
}
