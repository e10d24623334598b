//! Validation of a pod's containers.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
use watchkeeper_meta::validation::dns1123_label;
use watchkeeper_meta::{FieldError, FieldPath};

use super::volume_rules::Volumes;
use super::{env_rules, mount_rules, port_rules, probe_rules, resource_rules, security_rules};
use crate::rules::place::{Errors, Place};

pub(crate) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];

const MAX_RESTART_RULES: usize = 20;
const RESTART_ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];
const EXIT_CODE_OPERATORS: &[&str] = &["In", "NotIn"];
const MAX_EXIT_CODES: usize = 255;

/// Fields that an ephemeral container may not set: nothing probes or restarts it.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// The parts of a pod that containers are validated against.
struct Pod<'a, 'v> {
    volumes: &'a Volumes<'v>,
    claims: &'a BTreeSet<&'v str>,
    /// The termination grace period, in seconds.
    grace: i64,
    /// True unless the pod has a user namespace of its own.
    host_users: bool,
    never_restarts: bool,
}

/// Checks all containers of a spec, given its valid volumes and the names of its claims.
pub(crate) fn check_containers<'v>(
    spec: &Place<'v, '_>,
    volumes: &Volumes<'v>,
    claims: &BTreeSet<&'v str>,
    errors: &mut Errors,
) {
    let pod = Pod {
        volumes,
        claims,
        grace: spec.field("terminationGracePeriodSeconds").number(),
        host_users: spec.field("hostUsers").value() != false,
        never_restarts: spec.field("restartPolicy").text() == "Never",
    };
    let containers = spec.field("containers");
    if containers.len() == 0 {
        errors.push(containers.required(""));
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        check_container(&container, &pod, errors);
        let name = container.field("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        probe_rules::check_lifecycle(&container.field("lifecycle"), pod.grace, errors);
        probe_rules::check_probes(&container, pod.grace, errors);
        check_restart(&container, errors);
    }
    port_rules::check_host_ports(&containers, errors);
    let init_containers = spec.field("initContainers");
    for container in init_containers.items() {
        check_init_container(&container, &pod, &mut names, errors);
    }
    let lasting = names.clone();
    for container in spec.field("ephemeralContainers").items() {
        check_ephemeral_container(&container, &pod, &lasting, &mut names, errors);
    }
}

fn check_init_container<'v>(
    container: &Place<'v, '_>,
    pod: &Pod<'_, '_>,
    names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    check_container(container, pod, errors);
    check_restart(container, errors);
    check_unique(container, names, errors);
    // Init containers run one after another, so they may use the same host ports.
    port_rules::check_host_ports_of(container, &mut HashSet::new(), errors);
    if container.field("restartPolicy").text() == "Always" {
        probe_rules::check_lifecycle(&container.field("lifecycle"), pod.grace, errors);
        probe_rules::check_probes(container, pod.grace, errors);
        return;
    }
    for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let field = container.field(name);
        if field.is_set() {
            errors.push(field.forbidden("may not be set for init containers without restartPolicy=Always"));
        }
    }
}

fn check_ephemeral_container<'v>(
    container: &Place<'v, '_>,
    pod: &Pod<'_, '_>,
    lasting: &HashSet<&str>,
    names: &mut HashSet<&'v str>,
    errors: &mut Errors,
) {
    check_container(container, pod, errors);
    check_image_of_pod(container, errors);
    check_unique(container, names, errors);
    let target = container.field("targetContainerName");
    if !target.text().is_empty() && !lasting.contains(target.text()) {
        errors.push(target.not_found());
    }
    for name in NOT_EPHEMERAL {
        let field = container.field(name);
        if field.is_set() && field.value() != &serde_json::json!({}) {
            errors.push(field.forbidden("cannot be set for an Ephemeral Container"));
        }
    }
    for mount in container.field("volumeMounts").items() {
        for name in ["subPath", "subPathExpr"] {
            let path = mount.field(name);
            if !path.text().is_empty() {
                errors.push(path.forbidden("cannot be set for an Ephemeral Container"));
            }
        }
    }
}

fn check_unique<'v>(container: &Place<'v, '_>, names: &mut HashSet<&'v str>, errors: &mut Errors) {
    let name = container.field("name");
    if !name.text().is_empty() && !names.insert(name.text()) {
        errors.push(name.duplicate());
    }
}

/// Checks a container's own restart policy and restart rules.
fn check_restart(container: &Place<'_, '_>, errors: &mut Errors) {
    let policy = container.field("restartPolicy");
    policy.may_be_one_of(RESTART_POLICIES, errors);
    let rules = container.field("restartPolicyRules");
    if rules.len() > 0 && !policy.is_set() {
        errors.push(policy.required("must specify restartPolicy when restart rules are used"));
    }
    if rules.len() > MAX_RESTART_RULES {
        errors.push(rules.too_many(MAX_RESTART_RULES));
    }
    for rule in rules.items() {
        rule.field("action").is_one_of(RESTART_ACTIONS, errors);
        let codes = rule.field("exitCodes");
        if !codes.is_set() {
            errors.push(codes.required("must be specified"));
            continue;
        }
        codes.field("operator").is_one_of(EXIT_CODE_OPERATORS, errors);
        let values = codes.field("values");
        if values.len() > MAX_EXIT_CODES {
            errors.push(values.too_many(MAX_EXIT_CODES));
        }
    }
}

/// Checks the fields that all kinds of containers have.
fn check_container(container: &Place<'_, '_>, pod: &Pod<'_, '_>, errors: &mut Errors) {
    container
        .field("name")
        .must_be_set_and_keep(dns1123_label, errors);
    container.field("image").must_be_set(errors);
    container
        .field("terminationMessagePolicy")
        .must_be_one_of(MESSAGE_POLICIES, errors);
    port_rules::check_ports(&container.field("ports"), errors);
    env_rules::check_env(&container.field("env"), errors);
    env_rules::check_env_from(&container.field("envFrom"), errors);
    mount_rules::check_mounts(container, pod.volumes, errors);
    container
        .field("imagePullPolicy")
        .must_be_one_of(PULL_POLICIES, errors);
    resource_rules::check_resources(&container.field("resources"), pod.claims, errors);
    check_resize(&container.field("resizePolicy"), pod, errors);
    security_rules::check_container(&container.field("securityContext"), pod.host_users, errors);
}

/// Checks the resize policies. Errors name the list, not the item.
fn check_resize(policies: &Place<'_, '_>, pod: &Pod<'_, '_>, errors: &mut Errors) {
    let mut resources = HashSet::new();
    for policy in policies.items() {
        let (resource, restart) = (policy.field("resourceName"), policy.field("restartPolicy"));
        if !resources.insert(resource.text()) {
            errors.push(FieldError::duplicate(&policy.path(), resource.text()));
        }
        let list = |field: &Place<'_, '_>, allowed: &[&str], errors: &mut Errors| match field.text() {
            "" => errors.push(policies.required("")),
            text if !allowed.contains(&text) => {
                errors.push(FieldError::not_supported(&policies.path(), text, allowed));
            }
            _ => {}
        };
        list(&resource, &["cpu", "memory"], errors);
        list(&restart, &["NotRequired", "RestartContainer"], errors);
        if pod.never_restarts && restart.text() != "NotRequired" {
            let why = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.push(policies.invalid_for(restart.text(), why));
        }
    }
}

/// Checks images of pods. Templates are not checked for this.
pub(crate) fn check_images_of_pod(spec: &Place<'_, '_>, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            check_image_of_pod(&container, errors);
        }
    }
}

fn check_image_of_pod(container: &Place<'_, '_>, errors: &mut Errors) {
    let image = container.field("image");
    if image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

/// The errors of privileged containers, for a server that does not allow them.
pub(crate) fn privileged_errors(path: &FieldPath, spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let is_host_process = |within: &Value| within["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let containers = ["containers", "initContainers", "ephemeralContainers"];
    let mut all = containers
        .iter()
        .filter_map(|list| spec[list].as_array())
        .flatten();
    if is_host_process(spec) || all.any(is_host_process) {
        let why = "hostProcess containers are disallowed by cluster policy";
        errors.push(FieldError::forbidden(path, why));
    }
    for list in containers {
        for (index, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            if container["securityContext"]["privileged"] == true {
                let path = path
                    .child(list)
                    .index(index)
                    .child("securityContext")
                    .child("privileged");
                errors.push(FieldError::forbidden(&path, "disallowed by cluster policy"));
            }
        }
    }
    errors
}
