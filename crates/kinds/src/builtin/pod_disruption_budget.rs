//! Pod disruption budgets: how many pods may be missing.

use std::collections::HashSet;

use serde_json::json;
use watchkeeper_meta::validation::{FinalizerRule, NameRule};

use crate::Part;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::go_structs;
use crate::rules::place::{Faults, Place};
use crate::table::Column;
use crate::table::cells::{or, plain};

/// What only a status has to say, none of it below zero.
const COUNTS: &[&str] = &[
    "disruptionsAllowed",
    "currentHealthy",
    "desiredHealthy",
    "expectedPods",
];

/// What is particular to `poddisruptionbudgets`.
pub static KIND: Kind = Kind {
    group: "policy",
    name: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    finalizers: FinalizerRule::AnyQualifiedName,
    names: NameRule::PathSegment,
    updates_unconditionally: false,
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Min Available", |row| json!(or(plain(row.at("/spec/minAvailable")), "N/A"))),
    Column::text("Max Unavailable", |row| json!(or(plain(row.at("/spec/maxUnavailable")), "N/A"))),
    Column::integer("Allowed Disruptions", |row| row.count("/status/disruptionsAllowed")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |budget, faults| check(&budget.field("spec"), faults),
    check_change: |change, faults| {
        if change.part == Part::Status {
            check_status(&change.new.field("status"), faults);
        }
    },
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        let shown = go_structs::structure("PodDisruptionBudgetSpec", spec.value());
        faults.push(spec.invalid_in_go(shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for share in [least, most] {
        share.must_be_number_or_percent(faults);
        share.must_be_at_most_all(faults);
    }
    spec.field("selector").must_select(faults);
    spec.field("unhealthyPodEvictionPolicy")
        .may_be_one_of(&["AlwaysAllow", "IfHealthyBudget"], faults);
}

fn check_status(status: &Place<'_, '_>, faults: &mut Faults) {
    let mut types = HashSet::new();
    for condition in status.field("conditions").items() {
        let kind = condition.field("type");
        if !types.insert(kind.text()) {
            faults.push(kind.duplicate());
        }
    }
    for name in COUNTS {
        status.field(name).must_not_be_negative(faults);
    }
}
