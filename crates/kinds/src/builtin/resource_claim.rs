//! Resource claims: devices that a pod asks for, and in their status those that it was given ([`allocation`]).

mod allocation;

use serde_json::{Value, json};

use crate::Part;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::device_claims::{self, Age, fill_claim};
use crate::rules::place::Place;
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
    check_new: |claim, faults| device_claims::check(&claim.field("spec"), Age::New, faults),
    check_change: |change, faults| match change.part {
        Part::Status => allocation::check(change, faults),
        _ => {
            let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
            device_claims::check(&spec, Age::Stored, faults);
            spec.must_stay_unshown(&live, faults);
        }
    },
    warn: |claim, _, warnings| {
        let claim = Place::object(claim);
        let spec = claim.field("spec");
        device_claims::warn(&spec.field("devices").field("config"), warnings);
    },
    ..PLAIN
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
