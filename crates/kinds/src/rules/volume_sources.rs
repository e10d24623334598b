//! Volume sources of pods and persistent volumes.
//!
//! A pod and a persistent volume list their sources in their own order ([`Source`]); the rule of a source is here if
//! both have it: paths of the node and drivers in this file, [`disks`] and [`file_systems`] below. A persistent volume
//! belongs to no namespace, so its sources name the namespace of what they refer to; such rules are in pairs.

pub(crate) mod disks;
pub(crate) mod file_systems;

use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain};

use crate::rules::formats::check_no_steps_back;
use crate::rules::place::{Errors, Place, Rule};

/// A volume source: its field, and its rule.
pub(crate) struct Source {
    /// The field.
    pub(crate) name: &'static str,
    check: Check,
    stands_beside_others: bool,
}

/// The rule of a source.
enum Check {
    /// It needs the source only.
    Source(Rule),
    /// It needs the volume too.
    Volume(VolumeRule),
}

type VolumeRule = fn(&Place<'_, '_>, &Volume<'_, '_>, &mut Errors);

/// The volume that has the sources.
#[derive(Clone, Copy)]
pub(crate) struct Volume<'a, 'v> {
    /// The object whose fields are the sources.
    pub(crate) place: &'a Place<'v, 'a>,
    /// The name of the volume in its pod, or of the persistent volume.
    pub(crate) name: &'v str,
    /// The name of the pod; none in a pod template.
    pub(crate) pod: Option<&'v str>,
}

/// The names of these sources in error texts.
const RENAMED: &[(&str, &str)] = &[("gcePersistentDisk", "persistentDisk")];

/// The names of these sources in errors about several sources.
const RENAMED_BESIDE_OTHERS: &[(&str, &str)] = &[("cephfs", "cephFS"), ("downwardAPI", "downwarAPI")];

const HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

pub(crate) const MAX_DRIVER_NAME: usize = 63;

/// A source whose rule needs nothing else.
pub(crate) const fn source(name: &'static str, rule: Rule) -> Source {
    Source {
        name,
        check: Check::Source(rule),
        stands_beside_others: false,
    }
}

/// A source whose rule needs its volume.
pub(crate) const fn source_in_volume(name: &'static str, rule: VolumeRule) -> Source {
    Source {
        name,
        check: Check::Volume(rule),
        stands_beside_others: false,
    }
}

impl Source {
    /// Lets the source stand beside another one. In Kubernetes, one source does.
    pub(crate) const fn beside_others(self) -> Self {
        Self {
            stands_beside_others: true,
            ..self
        }
    }
}

/// Validates that there is exactly one source. If there are several, the first in this order counts.
pub(crate) fn check_sources(volume: &Volume<'_, '_>, sources: &[Source], errors: &mut Errors) {
    let mut found = false;
    for source in sources {
        let place = volume.place.field(source.name);
        if !place.is_set() {
            continue;
        }
        if found && !source.stands_beside_others {
            let place = place.known_as(renamed(source.name, RENAMED_BESIDE_OTHERS));
            errors.push(place.forbidden("may not specify more than 1 volume type"));
        } else {
            let place = place.known_as(renamed(source.name, RENAMED));
            match source.check {
                Check::Source(rule) => rule(&place, errors),
                Check::Volume(rule) => rule(&place, volume, errors),
            }
        }
        found = true;
    }
    if !found {
        errors.push(volume.place.required("must specify a volume type"));
    }
}

fn renamed(name: &'static str, names: &[(&str, &'static str)]) -> &'static str {
    let known = names.iter().find(|(known, _)| *known == name);
    known.map_or(name, |(_, renamed)| renamed)
}

/// Refuses empty fields.
fn check_needed(source: &Place<'_, '_>, needed: &[&str], errors: &mut Errors) {
    for name in needed {
        let field = source.field(name);
        if field.text().is_empty() && field.len() == 0 {
            errors.push(field.required(""));
        }
    }
}

/// A path of the node.
pub(crate) fn check_host_path(source: &Place<'_, '_>, errors: &mut Errors) {
    let path = source.field("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    check_no_steps_back(&path, errors);
    source.field("type").may_be_one_of(HOST_PATH_TYPES, errors);
}

/// A local disk of the node.
pub(crate) fn check_local(source: &Place<'_, '_>, errors: &mut Errors) {
    let path = source.field("path");
    path.must_be_set(errors);
    check_no_steps_back(&path, errors);
}

/// A volume of a driver that is a program on the node.
pub(crate) fn check_flex_volume(source: &Place<'_, '_>, errors: &mut Errors) {
    check_needed(source, &["driver"], errors);
    for (key, option) in source.field("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let domain = format!(".{}", namespace.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.push(option.invalid_for(key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

/// The name of a storage or device driver. Capitals are accepted.
pub(crate) fn check_driver(driver: &Place<'_, '_>, errors: &mut Errors) {
    if driver.text().is_empty() {
        return errors.push(driver.required(""));
    }
    if driver.text().len() > MAX_DRIVER_NAME {
        errors.push(driver.too_long(MAX_DRIVER_NAME));
    }
    let reasons = dns1123_subdomain(&driver.text().to_lowercase()).into_iter();
    errors.extend(reasons.map(|why| driver.invalid_for(driver.text(), why)));
}

/// A reference to a secret in a namespace.
pub(crate) fn check_secret_reference(reference: &Place<'_, '_>, errors: &mut Errors) {
    if reference.is_set() {
        reference
            .field("name")
            .must_be_set_and_keep(dns1123_subdomain, errors);
        reference
            .field("namespace")
            .must_be_set_and_keep(dns1123_label, errors);
    }
}

/// Refuses a reference to a secret, of whatever name, without these fields.
fn check_secret_fields(source: &Place<'_, '_>, needed: &[&str], errors: &mut Errors) {
    let reference = source.field("secretRef");
    if reference.is_set() {
        check_needed(&reference, needed, errors);
    }
}
