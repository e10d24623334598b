//! ResourceClaim: devices requested for pods, and in its status the devices allocated ([`allocation`]).

mod allocation;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use crate::Part;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::quota::{OF_DEVICE_CLASS, Usage};
use crate::rules::device_claims::{self, Age, fill_claim};
use crate::rules::place::Place;
use crate::table::Column;

/// The kind served as `resourceclaims`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "ResourceClaim",
    plural: "resourceclaims",
    status_keeps_metadata: true,
    delete_returns_object: true,
    columns: COLUMNS,
    status_without_table: true,
    hooks: HOOKS,
    usage,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("State", |row| json!(shown_state(row.object))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |claim| fill_claim(&mut claim["spec"]),
    check_new: |claim, errors| device_claims::check(&claim.field("spec"), Age::New, errors),
    check_change: |change, errors| match change.part {
        Part::Status => allocation::check(change, errors),
        _ => {
            let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
            spec.must_stay_unshown(&live, errors);
        }
    },
    warn: |claim, _, warnings| {
        let claim = Place::object(claim);
        let spec = claim.field("spec");
        device_claims::warn(&spec.field("devices").field("config"), warnings);
    },
    ..PLAIN
};

/// The largest number of devices for a request of all devices: 32, as in Kubernetes.
const MOST_DEVICES: i64 = 32;

/// The quota usage of a claim: devices per class. For prioritized alternatives, the largest of each class.
fn usage(claim: &Value, usage: &mut Usage) {
    let count = |request: &Value| match request["allocationMode"] == "All" {
        true => MOST_DEVICES,
        false => request["count"].as_i64().unwrap_or(1),
    };
    let mut devices: BTreeMap<&str, i64> = BTreeMap::new();
    for request in claim["spec"]["devices"]["requests"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let alternatives = request["firstAvailable"].as_array();
        let single = [&request["exactly"]];
        let requests: Vec<&Value> = alternatives.map_or(single.to_vec(), |all| all.iter().collect());
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for request in requests {
            if let Some(class) = request["deviceClassName"].as_str() {
                let known = most.entry(class).or_default();
                *known = count(request).max(*known);
            }
        }
        for (class, count) in most {
            *devices.entry(class).or_default() += count;
        }
    }
    for (class, count) in devices {
        let count = Quantity::new(count, QuantityFormat::DecimalSi);
        usage.insert(format!("{class}{OF_DEVICE_CLASS}"), count);
    }
}

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
