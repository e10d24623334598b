//! Volume sources shared by pods and persistent volumes: required fields.
//!
//! For sources of storage vendors, only the presence of required fields is checked.

use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain};

use crate::rules::formats::check_no_steps_back;
use crate::rules::place::{Errors, Place, Rule};

/// A volume source: its field, and its rule.
pub(crate) struct Source {
    /// The field.
    pub(crate) name: &'static str,
    /// The rule.
    pub(crate) check: Rule,
}

/// Required fields of sources without other rules.
const NEEDED: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &["monitors"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("gcePersistentDisk", &["pdName"]),
    ("gitRepo", &["repository"]),
    ("glusterfs", &["endpoints", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("quobyte", &["registry", "volume"]),
    ("rbd", &["monitors", "image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];

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

/// Validates that there is exactly one source. If there are several, the first in this order counts.
pub(crate) fn check_sources(volume: &Place<'_, '_>, sources: &[Source], errors: &mut Errors) {
    let mut found = false;
    for source in sources {
        let place = volume.field(source.name);
        if !place.is_set() {
            continue;
        }
        if found {
            let place = place.known_as(renamed(source.name, RENAMED_BESIDE_OTHERS));
            errors.push(place.forbidden("may not specify more than 1 volume type"));
        } else {
            (source.check)(&place.known_as(renamed(source.name, RENAMED)), errors);
            check_needed(source.name, &place, errors);
        }
        found = true;
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn renamed(name: &'static str, names: &[(&str, &'static str)]) -> &'static str {
    let known = names.iter().find(|(known, _)| *known == name);
    known.map_or(name, |(_, renamed)| renamed)
}

fn check_needed(source: &'static str, place: &Place<'_, '_>, errors: &mut Errors) {
    let place = place.known_as(renamed(source, RENAMED));
    let needed = NEEDED.iter().find(|(name, _)| *name == source);
    for name in needed.into_iter().flat_map(|(_, fields)| *fields) {
        let field = place.field(name);
        if field.text().is_empty() && field.len() == 0 {
            errors.push(field.required(""));
        }
    }
}

/// A source with only required fields.
pub(crate) const fn vendor(name: &'static str) -> Source {
    Source {
        name,
        check: |_, _| {},
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

/// An NFS directory.
pub(crate) fn check_nfs(source: &Place<'_, '_>, errors: &mut Errors) {
    source.field("server").must_be_set(errors);
    let path = source.field("path");
    path.must_be_set(errors);
    if !path.text().starts_with('/') {
        errors.push(path.invalid_for(path.text(), "must be an absolute path"));
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
