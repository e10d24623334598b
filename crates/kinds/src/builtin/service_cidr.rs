//! ServiceCIDR: a range from which cluster IPs are allocated.

use serde_json::json;

use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::joined;

/// One range per address family.
const MAX_RANGES: usize = 2;

/// The kind served as `servicecidrs`.
pub static KIND: Kind = Kind {
    group: "networking.k8s.io",
    name: "ServiceCIDR",
    plural: "servicecidrs",
    status_keeps_metadata: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("CIDRs", |row| json!(joined(row.at("/spec/cidrs"), ","))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check_new: |range, errors| check_ranges(&range.field("spec").field("cidrs"), errors),
    check_change,
    ..PLAIN
};

fn check_ranges(ranges: &Place<'_, '_>, errors: &mut Errors) {
    match ranges.len() {
        0 => errors.push(ranges.required("at least one CIDR required")),
        1 => {
            ranges.items().for_each(|range| {
                range.must_be_cidr(errors);
            });
        }
        MAX_RANGES => check_both_families(ranges, errors),
        _ => errors.push(ranges.invalid("may only hold up to 2 values")),
    }
}

fn check_both_families(ranges: &Place<'_, '_>, errors: &mut Errors) {
    let mut problems = Errors::new();
    let families = ranges
        .items()
        .filter_map(|range| range.must_be_cidr(&mut problems));
    let families: Vec<bool> = families.map(|range| range.is_ipv4()).collect();
    match families.as_slice() {
        [first, second] if first != second => errors.append(problems),
        _ => errors.push(ranges.invalid(
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        )),
    }
}

/// Checks an update: ranges are immutable, but one of the other family can be added.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (change.new.field("spec"), change.live.field("spec"));
    let (new, old) = (spec.field("cidrs"), old_spec.field("cidrs"));
    match (old.len(), new.len()) {
        (before, after) if before == after => {}
        (1, MAX_RANGES) => check_ranges(&new, errors),
        _ => return new.must_stay(&old, errors),
    }
    for (range, before) in new.items().zip(old.items()) {
        range.text_must_stay(&before, errors);
    }
}
