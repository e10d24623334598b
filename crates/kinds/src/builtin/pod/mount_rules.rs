//! Validation of volume mounts and devices. As in Kubernetes, errors of paths and propagation name the list of mounts,
//! not the item.

use std::collections::HashSet;

use serde_json::Value;

use super::volume_rules::Volumes;
use crate::rules::formats::check_descending;
use crate::rules::place::{Errors, Place};

const PROPAGATION: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const RECURSIVE: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// Checks the mounts and devices of a container, given the pod's valid volumes.
pub(crate) fn check_mounts(container: &Place<'_, '_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let (mounts, devices) = (container.field("volumeMounts"), container.field("volumeDevices"));
    let device_names = texts(&devices, "name");
    let device_paths = texts(&devices, "devicePath");
    let mut paths = HashSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        name.must_be_set(errors);
        if !volumes.contains_key(name.text()) {
            errors.push(name.not_found());
        }
        path.must_be_set(errors);
        if !paths.insert(path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        if device_names.contains(name.text()) {
            errors.push(name.invalid("must not already exist in volumeDevices"));
        }
        if device_paths.contains(path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        check_sub_path(&mount, &mounts, errors);
        check_propagation(container, &mounts.with_value(mount.value()), errors);
    }
    check_devices(&mounts, &devices, volumes, errors);
}

fn check_sub_path(mount: &Place<'_, '_>, mounts: &Place<'_, '_>, errors: &mut Errors) {
    let (plain, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    let list = mounts.with_value(mount.value());
    check_descending(&list.field("subPath"), errors);
    if !expression.text().is_empty() && !plain.text().is_empty() {
        errors.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
    }
    check_descending(&list.field("subPathExpr"), errors);
}

fn check_propagation(container: &Place<'_, '_>, mount: &Place<'_, '_>, errors: &mut Errors) {
    let propagation = mount.field("mountPropagation");
    propagation.may_be_one_of(PROPAGATION, errors);
    let context = container.field("securityContext");
    if propagation.text() == "Bidirectional" && !context.field("privileged").is_true() {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(propagation.forbidden(why));
    }
    let recursive = mount.field("recursiveReadOnly");
    recursive.may_be_one_of(RECURSIVE, errors);
    if matches!(recursive.text(), "Enabled" | "IfPossible") {
        if !mount.field("readOnly").is_true() {
            errors.push(recursive.forbidden("may only be specified when readOnly is true"));
        }
        if !matches!(propagation.text(), "" | "None") {
            let why = "may only be specified when mountPropagation is None or not specified";
            errors.push(recursive.forbidden(why));
        }
    }
}

fn check_devices(
    mounts: &Place<'_, '_>,
    devices: &Place<'_, '_>,
    volumes: &Volumes<'_>,
    errors: &mut Errors,
) {
    let (mount_names, mount_paths) = (texts(mounts, "name"), texts(mounts, "mountPath"));
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in devices.items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        name.must_be_set(errors);
        if names.contains(name.text()) {
            errors.push(name.invalid("must be unique"));
        }
        match volumes.get(name.text()) {
            None => errors.push(name.not_found()),
            Some(volume) if !is_claim(volume) => errors.push(name.invalid(
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )),
            Some(_) => {}
        }
        path.must_be_set(errors);
        if paths.contains(path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        match path.text().split('/').any(|part| part == "..") {
            true => errors.push(path.invalid("can not contain backsteps ('..')")),
            false => drop(paths.insert(path.text())),
        }
        if mount_names.contains(name.text()) {
            errors.push(name.invalid("must not already exist in volumeMounts"));
        }
        if mount_paths.contains(path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeMounts"));
        }
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}

fn is_claim(volume: &Value) -> bool {
    volume.get("persistentVolumeClaim").is_some() || volume.get("ephemeral").is_some()
}

fn texts<'v>(list: &Place<'v, '_>, name: &str) -> HashSet<&'v str> {
    let items = list.value().as_array().into_iter().flatten();
    items.filter_map(|item| item[name].as_str()).collect()
}
