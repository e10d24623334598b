//! What is wrong with the places at which containers see volumes.

use std::collections::HashSet;

use watchkeeper_meta::FieldError;

use super::super::place::{Faults, Place};

const PROPAGATION: &[&str] = &["Bidirectional", "HostToContainer", "None"];

/// Checks the mounts of a container, given the names of the pod's volumes that are in order.
pub(super) fn check_mounts(container: &Place<'_, '_>, volumes: &HashSet<&str>, faults: &mut Faults) {
    let (mounts, devices) = (container.field("volumeMounts"), container.field("volumeDevices"));
    let device_names: HashSet<&str> = texts(&devices, "name");
    let device_paths: HashSet<&str> = texts(&devices, "devicePath");
    let mut paths = HashSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        name.must_be_set(faults);
        if !volumes.contains(name.text()) {
            faults.push(name.not_found());
        }
        path.must_be_set(faults);
        if !paths.insert(path.text()) {
            faults.push(path.invalid("must be unique"));
        }
        if device_names.contains(name.text()) {
            faults.push(name.invalid("must not already exist in volumeDevices"));
        }
        if device_paths.contains(path.text()) {
            faults.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        check_sub_path(&mount, faults);
        let propagation = mount.field("mountPropagation");
        if propagation.is_set() {
            propagation.must_be_one_of(PROPAGATION, faults);
        }
    }
    check_devices(&devices, volumes, faults);
}

fn check_devices(devices: &Place<'_, '_>, volumes: &HashSet<&str>, faults: &mut Faults) {
    for device in devices.items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        name.must_be_set(faults);
        if !volumes.contains(name.text()) {
            faults.push(name.not_found());
        }
        path.must_be_set(faults);
        check_no_steps_back(&path, faults);
    }
}

fn check_sub_path(mount: &Place<'_, '_>, faults: &mut Faults) {
    let (plain, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    if !expression.text().is_empty() && !plain.text().is_empty() {
        faults.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
    }
    for path in [plain, expression] {
        if path.text().starts_with('/') {
            faults.push(path.invalid("must be a relative path"));
        }
        check_no_steps_back(&path, faults);
    }
}

/// Refuses a path that leads out of where it starts.
pub(super) fn check_no_steps_back(path: &Place<'_, '_>, faults: &mut Faults) {
    if path.text().split('/').any(|part| part == "..") {
        faults.push(FieldError::invalid(
            &path.path(),
            path.text(),
            "must not contain '..'",
        ));
    }
}

fn texts<'a>(list: &Place<'a, '_>, name: &str) -> HashSet<&'a str> {
    let items = list.value().as_array().into_iter().flatten();
    items.filter_map(|item| item[name].as_str()).collect()
}
