//! Storage classes: how volumes are made.

use std::collections::HashSet;

use serde_json::json;
use watchkeeper_meta::validation::qualified_name;

use crate::builtin::pod;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::defaulting::fill_empty;
use crate::rules::place::{Faults, Place};
use crate::table::Column;

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;

/// What is particular to `storageclasses`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "StorageClass",
    plural: "storageclasses",
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Provisioner", |row| json!(row.text("/provisioner"))),
    Column::text("ReclaimPolicy", |row| row.text_or("/reclaimPolicy", "Delete")),
    Column::text("VolumeBindingMode", |row| row.text_or("/volumeBindingMode", "Immediate")),
    Column::text("AllowVolumeExpansion", |row| row.is("/allowVolumeExpansion")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |class| {
        fill_empty(class, "reclaimPolicy", "Delete");
        fill_empty(class, "volumeBindingMode", "Immediate");
    },
    check_new: check,
    check_change,
    warn: |class, _, warnings| {
        for topology in Place::object(class).field("allowedTopologies").items() {
            for expression in topology.field("matchLabelExpressions").items() {
                let key = expression.field("key");
                if let Some(why) = pod::renamed(key.text()) {
                    warnings.add(format!("{}: {why}", key.path()));
                }
            }
        }
    },
    ..PLAIN
};

fn check(class: &Place<'_, '_>, faults: &mut Faults) {
    let provisioner = class.field("provisioner");
    if !provisioner.text().is_empty() {
        let reasons = qualified_name(&provisioner.text().to_lowercase()).into_iter();
        faults.extend(reasons.map(|why| provisioner.invalid(why)));
    }
    check_parameters(&class.field("parameters"), faults);
    class
        .field("reclaimPolicy")
        .is_one_of(&["Delete", "Retain"], faults);
    let mode = class.field("volumeBindingMode");
    match mode.text() {
        "" => faults.push(mode.required("")),
        _ => mode.is_one_of(&["Immediate", "WaitForFirstConsumer"], faults),
    }
    check_topologies(&class.field("allowedTopologies"), faults);
    provisioner.must_be_set(faults);
}

fn check_parameters(parameters: &Place<'_, '_>, faults: &mut Faults) {
    if parameters.len() > MAX_PARAMETERS {
        faults.push(parameters.too_long(MAX_PARAMETERS));
        return;
    }
    let mut size = 0;
    for (name, value) in parameters.entries() {
        if name.is_empty() {
            faults.push(parameters.invalid_for(name, "field can not be empty."));
        }
        size += name.len() + value.text().len();
    }
    if size > MAX_PARAMETER_BYTES {
        faults.push(parameters.too_long(MAX_PARAMETER_BYTES));
    }
}

/// Where volumes may be: each place by labels, none of them twice.
fn check_topologies(topologies: &Place<'_, '_>, faults: &mut Faults) {
    for term in topologies.items() {
        let mut keys = HashSet::new();
        for requirement in term.field("matchLabelExpressions").items() {
            let (key, values) = (requirement.field("key"), requirement.field("values"));
            if values.len() == 0 {
                faults.push(values.required(""));
            }
            let mut seen = HashSet::new();
            for value in values.items() {
                if !seen.insert(value.text()) {
                    faults.push(value.duplicate());
                }
            }
            let reasons = qualified_name(key.text()).into_iter();
            faults.extend(reasons.map(|why| key.invalid_for(key.text(), why)));
            if !keys.insert(key.text()) {
                faults.push(key.duplicate());
            }
        }
    }
}

fn check_change(change: &Change<'_>, faults: &mut Faults) {
    for name in ["parameters", "provisioner", "reclaimPolicy"] {
        let (new, live) = (change.new.field(name), change.live.field(name));
        if new.value() != live.value() {
            faults.push(new.forbidden(format!("updates to {name} are forbidden.")));
        }
    }
    let (new, live) = (
        change.new.field("volumeBindingMode"),
        change.live.field("volumeBindingMode"),
    );
    new.must_stay(&live, faults);
}
