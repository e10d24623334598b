//! What is wrong with the volumes of a pod.
//!
//! Checked are names, that there is one source, and what the sources that people write themselves cannot do
//! without. Sources of storage vendors are taken as they are.

use std::collections::HashSet;

use watchkeeper_meta::validation::dns1123_label;

use super::super::place::{Faults, Place};
use super::env_rules::{FILE_FIELDS, check_field_reference, map_key};
use super::mount_rules::check_no_steps_back;

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

/// Checks the volumes of a spec, and returns the names of those that are in order.
pub(super) fn check_volumes<'a>(volumes: &Place<'a, '_>, faults: &mut Faults) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for volume in volumes.items() {
        let before = faults.len();
        check_source(&volume, faults);
        let name = volume.field("name");
        match name.text() {
            "" => faults.push(name.required("")),
            _ => name.must_keep(dns1123_label, faults),
        }
        if names.contains(name.text()) {
            faults.push(name.duplicate());
        }
        if faults.len() == before {
            names.insert(name.text());
        }
    }
    names
}

fn check_source(volume: &Place<'_, '_>, faults: &mut Faults) {
    let fields = volume.value().as_object().into_iter().flatten();
    let sources: Vec<&str> = fields
        .filter(|(name, value)| *name != "name" && !value.is_null())
        .map(|(name, _)| name.as_str())
        .collect();
    match sources.as_slice() {
        [] => faults.push(volume.required("must specify a volume type")),
        [first, others @ ..] => {
            check_one_source(first, &volume.field(first), faults);
            for other in others {
                let other = volume.field(other);
                faults.push(other.forbidden("may not specify more than 1 volume type"));
            }
        }
    }
}

fn check_one_source(name: &str, source: &Place<'_, '_>, faults: &mut Faults) {
    match name {
        "emptyDir" if source.field("sizeLimit").text().starts_with('-') => {
            let limit = source.field("sizeLimit");
            faults.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
        }
        "hostPath" => check_host_path(source, faults),
        "secret" => {
            source.field("secretName").must_be_set(faults);
            check_mode(source, faults);
            check_items(&source.field("items"), faults);
        }
        "configMap" => {
            source.field("name").must_be_set(faults);
            check_mode(source, faults);
            check_items(&source.field("items"), faults);
        }
        "downwardAPI" => {
            check_mode(source, faults);
            check_files(&source.field("items"), faults);
        }
        "persistentVolumeClaim" => source.field("claimName").must_be_set(faults),
        "nfs" => {
            source.field("server").must_be_set(faults);
            let path = source.field("path");
            path.must_be_set(faults);
            if !path.text().is_empty() && !path.text().starts_with('/') {
                faults.push(path.invalid("must be an absolute path"));
            }
        }
        "csi" => source.field("driver").must_be_set(faults),
        _ => {}
    }
}

fn check_host_path(source: &Place<'_, '_>, faults: &mut Faults) {
    let path = source.field("path");
    path.must_be_set(faults);
    check_no_steps_back(&path, faults);
    let kind = source.field("type");
    if !HOST_PATH_TYPES.contains(&kind.text()) {
        faults.push(kind.unsupported(HOST_PATH_TYPES));
    }
}

fn check_mode(source: &Place<'_, '_>, faults: &mut Faults) {
    let mode = source.field("defaultMode");
    if !(0..=0o777).contains(&mode.number()) {
        faults.push(mode.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

/// Entries that become files.
fn check_items(items: &Place<'_, '_>, faults: &mut Faults) {
    for item in items.items() {
        let (key, path) = (item.field("key"), item.field("path"));
        match key.text() {
            "" => faults.push(key.required("")),
            _ => key.must_keep(map_key, faults),
        }
        check_relative(&path, faults);
    }
}

/// Fields of the pod that become files.
fn check_files(items: &Place<'_, '_>, faults: &mut Faults) {
    for item in items.items() {
        check_relative(&item.field("path"), faults);
        let field = item.field("fieldRef");
        if field.is_set() {
            check_field_reference(&field, FILE_FIELDS, faults);
        } else if !item.field("resourceFieldRef").is_set() {
            faults.push(item.required("one of fieldRef and resourceFieldRef is required"));
        }
    }
}

fn check_relative(path: &Place<'_, '_>, faults: &mut Faults) {
    path.must_be_set(faults);
    if path.text().starts_with('/') {
        faults.push(path.invalid("must be a relative path"));
    }
    check_no_steps_back(path, faults);
}
