//! Lease: the holder of a lock, and for how long.

use serde_json::json;
use watchkeeper_meta::validation::{FinalizerRule, qualified_name};

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::table::Column;

/// The strategies of coordinated leader election.
const STRATEGIES: &[&str] = &["OldestEmulationVersion"];

/// The kind served as `leases`.
pub static KIND: Kind = Kind {
    group: "coordination.k8s.io",
    name: "Lease",
    plural: "leases",
    finalizers: FinalizerRule::AnyQualifiedName,
    creates_on_update: true,
    updates_unconditionally: false,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Holder", |row| json!(row.text("/spec/holderIdentity"))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |lease, errors| check(&lease.field("spec"), errors),
    heeds: Some(|_| false),
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    let duration = spec.field("leaseDurationSeconds");
    if duration.is_set() && duration.number() <= 0 {
        errors.push(duration.invalid("must be greater than 0"));
    }
    spec.field("leaseTransitions").must_not_be_negative(errors);
    let strategy = spec.field("strategy");
    if strategy.is_set() {
        // Kubernetes' errors repeat the field in the path.
        let twice = strategy.field("strategy").with_value(strategy.value());
        match strategy.text().contains('/') {
            true => twice.must_keep(qualified_name, errors),
            false => twice.is_one_of(STRATEGIES, errors),
        }
    }
    let holder = spec.field("preferredHolder");
    if !holder.text().is_empty() && strategy.text().is_empty() {
        errors.push(holder.forbidden("may only be specified if `strategy` is defined"));
    }
}
