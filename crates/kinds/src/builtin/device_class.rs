//! DeviceClass: selects and configures devices that can be claimed.

use watchkeeper_meta::validation::NameRule;

use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::device_claims::{self, Age, MAX_CONFIGURATIONS, check_configuration, check_selectors};
use crate::rules::devices::Found;
use crate::rules::place::{Errors, Place};
use crate::rules::resource_names::is_extended;
use crate::table::Column;

/// The kind served as `deviceclasses`.
pub static KIND: Kind = Kind {
    group: "resource.k8s.io",
    name: "DeviceClass",
    plural: "deviceclasses",
    names: NameRule::DeclaredSubdomain,
    generation: Generation::Spec,
    delete_returns_object: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[Column::NAME, Column::AGE];

const HOOKS: Hooks = Hooks {
    check_new: |class, errors| check(&class.field("spec"), None, errors),
    check_change: |change, errors| {
        check(
            &change.new.field("spec"),
            Some(&change.live.field("spec")),
            errors,
        );
    },
    warn: |class, _, warnings| {
        let class = Place::object(class);
        device_claims::warn(&class.field("spec").field("config"), warnings);
    },
    ..PLAIN
};

/// Checks a spec. Lists that are unchanged from `live` are not validated again.
fn check(spec: &Place<'_, '_>, live: Option<&Place<'_, '_>>, errors: &mut Errors) {
    let age = |name: &str| match live {
        Some(live) if live.field(name).value() == spec.field(name).value() => Age::Stored,
        _ => Age::New,
    };
    Found::of(
        |found| {
            check_selectors(&spec.field("selectors"), age("selectors"), found);
            let configurations = spec.field("config");
            if found.has_at_most(MAX_CONFIGURATIONS, &configurations) {
                for configuration in configurations.items() {
                    check_configuration(&configuration, age("config"), found);
                }
            }
            let resource = spec.field("extendedResourceName");
            if resource.is_set() && !is_extended(resource.text()) {
                let why = "must be a valid extended resource name";
                found.declared.push(resource.invalid(why));
            }
        },
        errors,
    );
}
