//! What is wrong with the containers of a pod.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::validation::dns1123_label;
use watchkeeper_meta::{FieldError, FieldPath};

use super::super::place::{Faults, Place};
use super::{env_rules, mount_rules, port_rules, probe_rules, resource_rules};

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: &[&str] = &["FallbackToLogsOnError", "File"];

/// What an ephemeral container may not have: nothing waits for it and nothing restarts it.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
];

/// Checks all containers of a spec, given the names of its volumes that are in order.
pub(super) fn check_containers(spec: &Place<'_, '_>, volumes: &HashSet<&str>, faults: &mut Faults) {
    let containers = spec.field("containers");
    if containers.len() == 0 {
        faults.push(containers.required(""));
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        check_container(&container, volumes, faults);
        let name = container.field("name");
        if !names.insert(name.text()) {
            faults.push(name.duplicate());
        }
        check_lifecycle(&container.field("lifecycle"), faults);
        probe_rules::check_probes(&container, faults);
    }
    port_rules::check_host_ports(&containers, faults);
    let init_containers = spec.field("initContainers");
    for container in init_containers.items() {
        check_init_container(&container, volumes, &mut names, faults);
    }
    port_rules::check_host_ports(&init_containers, faults);
    for container in spec.field("ephemeralContainers").items() {
        check_ephemeral_container(&container, volumes, &mut names, faults);
    }
}

fn check_init_container<'a>(
    container: &Place<'a, '_>,
    volumes: &HashSet<&str>,
    names: &mut HashSet<&'a str>,
    faults: &mut Faults,
) {
    check_container(container, volumes, faults);
    let restart = container.field("restartPolicy");
    let restarts = restart.text() == "Always";
    if restart.is_set() && !restarts && !matches!(restart.text(), "Never" | "OnFailure") {
        faults.push(restart.unsupported(&["Always", "Never", "OnFailure"]));
    }
    check_unique(container, names, faults);
    if restarts {
        check_lifecycle(&container.field("lifecycle"), faults);
        probe_rules::check_probes(container, faults);
        return;
    }
    for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let field = container.field(name);
        if field.is_set() {
            faults.push(field.forbidden("may not be set for init containers without restartPolicy=Always"));
        }
    }
}

fn check_ephemeral_container<'a>(
    container: &Place<'a, '_>,
    volumes: &HashSet<&str>,
    names: &mut HashSet<&'a str>,
    faults: &mut Faults,
) {
    check_container(container, volumes, faults);
    check_unique(container, names, faults);
    for name in NOT_EPHEMERAL {
        let field = container.field(name);
        if field.is_set() {
            faults.push(field.forbidden("cannot be set for an Ephemeral Container"));
        }
    }
    let resources = container.field("resources");
    if resources.len() > 0 {
        faults.push(resources.forbidden("cannot be set for an Ephemeral Container"));
    }
}

fn check_unique<'a>(container: &Place<'a, '_>, names: &mut HashSet<&'a str>, faults: &mut Faults) {
    let name = container.field("name");
    if !name.text().is_empty() && !names.insert(name.text()) {
        faults.push(name.duplicate());
    }
}

/// What all containers have in common.
fn check_container(container: &Place<'_, '_>, volumes: &HashSet<&str>, faults: &mut Faults) {
    let (name, image) = (container.field("name"), container.field("image"));
    match name.text() {
        "" => faults.push(name.required("")),
        _ => name.must_keep(dns1123_label, faults),
    }
    image.must_be_set(faults);
    if image.text().trim() != image.text() {
        faults.push(image.invalid("must not have leading or trailing whitespace"));
    }
    container
        .field("terminationMessagePolicy")
        .must_be_one_of(MESSAGE_POLICIES, faults);
    port_rules::check_ports(&container.field("ports"), faults);
    env_rules::check_env(&container.field("env"), faults);
    env_rules::check_env_from(&container.field("envFrom"), faults);
    mount_rules::check_mounts(container, volumes, faults);
    container
        .field("imagePullPolicy")
        .must_be_one_of(PULL_POLICIES, faults);
    resource_rules::check_resources(&container.field("resources"), faults);
    check_security_context(&container.field("securityContext"), faults);
}

fn check_lifecycle(lifecycle: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["postStart", "preStop"] {
        let handler = lifecycle.field(name);
        if handler.is_set() {
            probe_rules::check_handler(&handler, faults);
        }
    }
}

fn check_security_context(context: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["runAsUser", "runAsGroup"] {
        check_id(&context.field(name), faults);
    }
}

/// Containers that may do everything, where the server allows none.
pub(in super::super) fn privileged_faults(path: &FieldPath, spec: &Value) -> Faults {
    let mut faults = Faults::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            if container["securityContext"]["privileged"] == true {
                let path = path
                    .child(list)
                    .index(index)
                    .child("securityContext")
                    .child("privileged");
                faults.push(FieldError::forbidden(&path, "disallowed by cluster policy"));
            }
        }
    }
    faults
}

/// Checks the number of a user or a group.
pub(super) fn check_id(id: &Place<'_, '_>, faults: &mut Faults) {
    if id.is_set() && !(0..=i64::from(i32::MAX)).contains(&id.number()) {
        faults.push(id.invalid("must be between 0 and 2147483647, inclusive"));
    }
}
