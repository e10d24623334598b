//! Validation of `spec.os`, and of the fields that do not apply to that operating system.

use watchkeeper_meta::FieldError;

use crate::rules::place::{Errors, Place};

const SYSTEMS: &[&str] = &["linux", "windows"];

/// The fields of a pod that Windows does not have, with the field that contains them; none for the spec itself.
const NOT_OF_WINDOWS_POD: &[(Option<&str>, &str)] = &[
    (CONTEXT, "appArmorProfile"),
    (CONTEXT, "seLinuxOptions"),
    (None, "hostUsers"),
    (None, "hostPID"),
    (None, "hostIPC"),
    (CONTEXT, "seccompProfile"),
    (CONTEXT, "fsGroup"),
    (CONTEXT, "fsGroupChangePolicy"),
    (CONTEXT, "sysctls"),
    (None, "shareProcessNamespace"),
    (CONTEXT, "runAsUser"),
    (CONTEXT, "runAsGroup"),
    (CONTEXT, "supplementalGroups"),
    (CONTEXT, "supplementalGroupsPolicy"),
    (CONTEXT, "seLinuxChangePolicy"),
];
const CONTEXT: Option<&str> = Some("securityContext");

/// The fields of a container's security context that Windows does not have.
const NOT_OF_WINDOWS_CONTAINER: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks `spec.os` and, if it is valid, the fields that depend on it.
pub(crate) fn check_system(spec: &Place<'_, '_>, errors: &mut Errors) {
    let system = spec.field("os");
    let name = system.field("name");
    match name.text() {
        _ if !system.is_set() => {}
        "" => errors.push(name.required("")),
        "linux" => check_linux(spec, errors),
        "windows" => check_windows(spec, errors),
        other => errors.push(FieldError::not_supported(&system.path(), other, SYSTEMS)),
    }
}

fn check_linux(spec: &Place<'_, '_>, errors: &mut Errors) {
    let check = |context: &Place<'_, '_>, errors: &mut Errors| {
        let options = context.field("windowsOptions");
        if options.is_set() {
            errors.push(options.forbidden("windows options cannot be set for a linux pod"));
        }
    };
    check(&spec.field("securityContext"), errors);
    each_container_context(spec, |context| check(context, errors));
}

fn check_windows(spec: &Place<'_, '_>, errors: &mut Errors) {
    let mut check = |field: Place<'_, '_>| {
        // Fields of the spec without a value for "unset" are unset if they are false.
        let is_flag = matches!(field.value(), serde_json::Value::Bool(false));
        if field.is_set() && !is_flag {
            errors.push(field.forbidden("cannot be set for a windows pod"));
        }
    };
    let context = spec.field("securityContext");
    for (within, name) in NOT_OF_WINDOWS_POD {
        check(within.map_or_else(|| spec.field(name), |_| context.field(name)));
    }
    each_container_context(spec, |context| {
        NOT_OF_WINDOWS_CONTAINER
            .iter()
            .for_each(|name| check(context.field(name)));
    });
}

/// Calls a function with the security context of every container.
fn each_container_context(spec: &Place<'_, '_>, mut check: impl FnMut(&Place<'_, '_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            check(&container.field("securityContext"));
        }
    }
}
