//! ResourceClaimTemplate: a template for the claims of pods.

use watchkeeper_meta::validation::{annotations, labels};

use crate::kind::{Change, Hooks, Kind, PLAIN};
use crate::rules::device_claims::{self, Age, fill_claim};
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::table::Column;

/// The kind served as `resourceclaimtemplates`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "ResourceClaimTemplate",
    plural: "resourceclaimtemplates",
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[Column::NAME, Column::AGE];

const HOOKS: Hooks = Hooks {
    default: |template| fill_claim(&mut template["spec"]["spec"]),
    check_new: |template, errors| check(&template.field("spec"), Age::New, errors),
    check_change,
    warn: |template, _, warnings| {
        let template = Place::object(template);
        let (spec, inner) = (template.field("spec"), "spec");
        let devices = spec.field(inner);
        device_claims::warn(&devices.field("devices").field("config"), warnings);
    },
    ..PLAIN
};

fn check(spec: &Place<'_, '_>, age: Age, errors: &mut Errors) {
    let metadata = spec.field("metadata");
    let (names, notes) = (metadata.field("labels"), metadata.field("annotations"));
    errors.append(annotations(notes.value(), &notes.path()));
    errors.append(labels(names.value(), &names.path()));
    device_claims::check(&spec.field("spec"), age, errors);
}

fn check_change(change: &Change<'_>, errors: &mut Errors) {
    let (spec, live) = (change.new.field("spec"), change.live.field("spec"));
    check(&spec, Age::Stored, errors);
    if spec.value() != live.value() {
        let shown = go_structs::structure("ResourceClaimTemplateSpec", spec.value());
        errors.push(spec.invalid_in_go(shown, "field is immutable"));
    }
}
