//! Where a volume comes from: what the sources cannot do without that pods and persistent volumes share.
//!
//! Of sources that storage vendors brought, the fields that must be set are checked, and not what they look like.

use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain};

use crate::rules::formats::check_no_steps_back;
use crate::rules::place::{Errors, Place, Rule};

/// A kind of source: its field, and what is checked of it.
pub(crate) struct Source {
    /// The field.
    pub(crate) name: &'static str,
    /// The rule.
    pub(crate) check: Rule,
}

/// Fields that must be set, of sources without other rules.
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

/// What texts call these sources.
const RENAMED: &[(&str, &str)] = &[("gcePersistentDisk", "persistentDisk")];

/// What texts call these sources when there is another one.
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

const MAX_DRIVER_NAME: usize = 63;

/// Checks that there is one source, and that it is in order. Which one counts if there are several, the order of the
/// sources says.
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

/// A source without rules beyond what must be set.
pub(crate) const fn vendor(name: &'static str) -> Source {
    Source {
        name,
        check: |_, _| {},
    }
}

/// A directory or file of the node.
pub(crate) fn check_host_path(source: &Place<'_, '_>, errors: &mut Errors) {
    let path = source.field("path");
    if path.text().is_empty() {
        errors.push(path.required(""));
        return;
    }
    check_no_steps_back(&path, errors);
    source.field("type").may_be_one_of(HOST_PATH_TYPES, errors);
}

/// A disk of the node.
pub(crate) fn check_local(source: &Place<'_, '_>, errors: &mut Errors) {
    let path = source.field("path");
    path.must_be_set(errors);
    check_no_steps_back(&path, errors);
}

/// A directory of a file server.
pub(crate) fn check_nfs(source: &Place<'_, '_>, errors: &mut Errors) {
    source.field("server").must_be_set(errors);
    let path = source.field("path");
    path.must_be_set(errors);
    if !path.text().starts_with('/') {
        errors.push(path.invalid_for(path.text(), "must be an absolute path"));
    }
}

/// The name of a driver of storage or devices. Capitals are let through.
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

/// A secret in a namespace.
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
