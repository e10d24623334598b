//! StorageClass: how volumes are provisioned.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::qualified_name;

use crate::builtin::pod;
use crate::default_class::STORAGE_CLASS_MARKS;
use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::defaulting::fill;
use crate::rules::place::{Errors, Place};
use crate::rules::storage_classes::{check_parameters, check_provisioner};
use crate::table::Column;

/// The immutable fields, in the order in which Kubernetes checks them.
const FIXED: &[&str] = &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"];

/// The kind served as `storageclasses`.
pub static KIND: Kind = Kind {
    group: "storage.k8s.io",
    name: "StorageClass",
    plural: "storageclasses",
    delete_returns_object: true,
    columns: COLUMNS,
    default_marks: STORAGE_CLASS_MARKS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Provisioner", |row| json!(row.text("/provisioner"))),
    Column::text("ReclaimPolicy", |row| row.text_or("/reclaimPolicy", "Delete")),
    Column::text("VolumeBindingMode", |row| {
        row.text_or("/volumeBindingMode", "Immediate")
    }),
    Column::text("AllowVolumeExpansion", |row| row.is("/allowVolumeExpansion")),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |class| {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    },
    check,
    check_change,
    warn: |class, _, warnings| {
        for topology in Place::object(class).field("allowedTopologies").items() {
            for expression in topology.field("matchLabelExpressions").items() {
                let key = expression.field("key");
                if let Some(why) = pod::deprecated_label(key.text()) {
                    warnings.add(format!("{}: {why}", key.path()));
                }
            }
        }
    },
    ..PLAIN
};

fn check(class: &Place<'_, '_>, errors: &mut Errors) {
    let provisioner = class.field("provisioner");
    check_provisioner(&provisioner, errors);
    check_parameters(&class.field("parameters"), errors);
    let policy = class.field("reclaimPolicy");
    if !policy.text().is_empty() {
        policy.is_one_of(&["Delete", "Retain"], errors);
    }
    class
        .field("volumeBindingMode")
        .is_one_of(&["Immediate", "WaitForFirstConsumer"], errors);
    check_topologies(&class.field("allowedTopologies"), errors);
    // Kubernetes checks this one by schema, so its error comes last.
    provisioner.must_be_set(errors);
}

/// Checks the allowed topologies: terms must differ.
fn check_topologies(topologies: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen: BTreeMap<Requirements<'_>, usize> = BTreeMap::new();
    for term in topologies.items() {
        let expressions = term.field("matchLabelExpressions");
        let requirements = check_requirements(&expressions, errors);
        // Kubernetes also compares with as many empty terms as there are terms.
        let empty = if requirements.is_empty() {
            topologies.len()
        } else {
            0
        };
        let same = seen.entry(requirements).or_default();
        errors.push_times(empty + *same, || FieldError::duplicate(&expressions.path(), ""));
        *same += 1;
    }
}

/// The allowed values of each label.
type Requirements<'v> = BTreeMap<&'v str, BTreeSet<&'v str>>;

fn check_requirements<'v>(expressions: &Place<'v, '_>, errors: &mut Errors) -> Requirements<'v> {
    let mut requirements = Requirements::new();
    for requirement in expressions.items() {
        let (key, values) = (requirement.field("key"), requirement.field("values"));
        if values.len() == 0 {
            errors.push(values.required(""));
        }
        let mut seen = BTreeSet::new();
        for value in values.items() {
            if !seen.insert(value.text()) {
                errors.push(value.duplicate());
            }
        }
        let reasons = qualified_name(key.text()).into_iter();
        errors.extend(reasons.map(|why| key.invalid_for(key.text(), why)));
        if requirements.insert(key.text(), seen).is_some() {
            errors.push(key.duplicate());
        }
    }
    requirements
}

/// Checks an update: where volumes come from and how they are bound is immutable.
fn check_change(change: &Change<'_>, errors: &mut Errors) {
    for name in FIXED {
        let (new, live) = (change.new.field(name), change.live.field(name));
        new.must_stay_unshown(&live, errors);
    }
}
