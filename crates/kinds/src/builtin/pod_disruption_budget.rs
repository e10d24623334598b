//! PodDisruptionBudget: the pods of a selection that may be unavailable at once.

use serde_json::json;
use watchkeeper_meta::validation::{FinalizerRule, NameRule};

use crate::Part;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::conditions;
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{or, plain};

/// The counts in the status, none of which may be negative.
const COUNTS: &[&str] = &[
    "disruptionsAllowed",
    "currentHealthy",
    "desiredHealthy",
    "expectedPods",
];

/// The kind served as `poddisruptionbudgets`.
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
    Column::text("Min Available", |row| {
        json!(or(plain(row.at("/spec/minAvailable")), "N/A"))
    }),
    Column::text("Max Unavailable", |row| {
        json!(or(plain(row.at("/spec/maxUnavailable")), "N/A"))
    }),
    Column::integer("Allowed Disruptions", |row| {
        row.count("/status/disruptionsAllowed")
    }),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |budget, errors| check(&budget.field("spec"), errors),
    check_change: |change, errors| {
        if change.part == Part::Status {
            check_status(&change.new.field("status"), errors);
        }
    },
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (least, most) = (spec.field("minAvailable"), spec.field("maxUnavailable"));
    if least.is_set() && most.is_set() {
        let shown = go_structs::structure("PodDisruptionBudgetSpec", spec.value());
        errors.push(spec.invalid_in_go(shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for share in [least, most] {
        share.must_be_number_or_percent(errors);
        share.must_be_at_most_all(errors);
    }
    spec.field("selector").must_select(errors);
    spec.field("unhealthyPodEvictionPolicy")
        .may_be_one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
}

fn check_status(status: &Place<'_, '_>, errors: &mut Errors) {
    conditions::check(&status.field("conditions"), errors);
    for name in COUNTS {
        status.field(name).must_not_be_negative(errors);
    }
}
