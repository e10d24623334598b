//! Lease: the holder of a lock, and for how long.

use serde_json::json;
use watchkeeper_meta::validation::FinalizerRule;

use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::table::Column;

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
}
