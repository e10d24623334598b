//! IPAddress: an allocated cluster IP.

use serde_json::json;
use watchkeeper_meta::validation::{NameRule, dns1123_subdomain, path_segment_name};

use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::formats::parse_ip;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::reference;

/// The kind served as `ipaddresses`.
pub static KIND: Kind = Kind {
    group: "networking.k8s.io",
    name: "IPAddress",
    plural: "ipaddresses",
    names: NameRule::OfKind,
    columns: COLUMNS,
    cells_beyond: &[Column::AGE],
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("ParentRef", |row| json!(reference(row.at("/spec/parentRef")))),
];

const HOOKS: Hooks = Hooks {
    check_new: |address, errors| {
        address.must_be_named(|name, _| check_name(name), errors);
        check_parent(&address.field("spec").field("parentRef"), errors);
    },
    check_change,
    ..PLAIN
};

/// Checks that the name is an address in Go's canonical form.
fn check_name(name: &str) -> Vec<String> {
    match parse_ip(name) {
        Err(why) => vec![why.to_owned()],
        Ok(address) if address.to_string() != name => {
            vec![format!("must be in canonical form (\"{address}\")")]
        }
        Ok(_) => Vec::new(),
    }
}

/// Checks the reference to the object that owns the address.
fn check_parent(parent: &Place<'_, '_>, errors: &mut Errors) {
    if !parent.is_set() {
        errors.push(parent.required(""));
        return;
    }
    // The group is empty for services.
    parent.field("group").may_keep(dns1123_subdomain, errors);
    for name in ["resource", "name"] {
        parent.field(name).must_be_set_and_keep(path_segment_name, errors);
    }
    parent.field("namespace").may_keep(path_segment_name, errors);
}

/// Checks an update: the owner is immutable.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (spec, old) = (change.new.field("spec"), change.live.field("spec"));
    let (parent, before) = (spec.field("parentRef"), old.field("parentRef"));
    if !parent.is_set() && before.is_set() {
        errors.push(parent.required(""));
    }
    parent.must_stay_unshown(&before, errors);
}
