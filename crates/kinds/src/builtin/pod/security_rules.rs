//! Validation of security contexts, of containers and of a pod as a whole.
//!
//! SELinux options are not checked, as in Kubernetes.

use std::collections::HashSet;

use super::windows_rules;
use crate::rules::formats::check_descending;
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};

const SECCOMP: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const MAX_SYSCTL: usize = 253;
pub(super) const MAX_PROFILE: usize = 4095;

/// Checks the security context of a container. `host_users` is true unless the pod has its own user namespace.
pub(crate) fn check_container(context: &Place<'_, '_>, host_users: bool, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        check_id(&context.field(name), errors);
    }
    let mount = context.field("procMount");
    mount.may_be_one_of(&["Default", "Unmasked"], errors);
    if host_users && mount.text() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    check_seccomp(&context.field("seccompProfile"), errors);
    check_escalation(context, errors);
    windows_rules::check_options(&context.field("windowsOptions"), errors);
    check_app_armor(&context.field("appArmorProfile"), errors);
}

/// Rejects `allowPrivilegeEscalation: false` for a container that is privileged already.
fn check_escalation(context: &Place<'_, '_>, errors: &mut Errors) {
    if context.field("allowPrivilegeEscalation").value() != false {
        return;
    }
    let capabilities = context.field("capabilities");
    let mut added = capabilities.field("add").texts();
    for (gains, what) in [
        (
            context.field("privileged").is_true(),
            "`allowPrivilegeEscalation` to false and `privileged` to true",
        ),
        (
            added.any(|capability| capability == "CAP_SYS_ADMIN"),
            "`allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
        ),
    ] {
        if gains {
            let shown = go_structs::structure("SecurityContext", context.value());
            errors.push(context.invalid_in_go(shown, format!("cannot set {what}")));
        }
    }
}

/// Checks the security context of a pod.
pub(crate) fn check_pod(spec: &Place<'_, '_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(&context.field(name), errors);
    }
    for group in context.field("supplementalGroups").items() {
        check_id(&group, errors);
    }
    if spec.field("shareProcessNamespace").is_true() && spec.field("hostPID").is_true() {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(context.field("shareProcessNamespace").invalid_for(true, why));
    }
    check_sysctls(&context.field("sysctls"), spec, errors);
    context
        .field("fsGroupChangePolicy")
        .may_be_one_of(&["Always", "OnRootMismatch"], errors);
    check_seccomp(&context.field("seccompProfile"), errors);
    windows_rules::check_options(&context.field("windowsOptions"), errors);
    check_app_armor(&context.field("appArmorProfile"), errors);
    context
        .field("supplementalGroupsPolicy")
        .may_be_one_of(&["Merge", "Strict"], errors);
    context
        .field("seLinuxChangePolicy")
        .may_be_one_of(&["MountOption", "Recursive"], errors);
}

/// Checks that a pod with its own user namespace shares no other namespace with the host.
pub(crate) fn check_host_users(spec: &Place<'_, '_>, errors: &mut Errors) {
    if spec.field("hostUsers").value() != false {
        return;
    }
    for (name, shown) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        let field = spec.field(name);
        if field.is_true() {
            let field = field.known_as(shown);
            errors.push(field.forbidden("when `pod.Spec.HostUsers` is false"));
        }
    }
}

/// Checks a user or group ID.
fn check_id(id: &Place<'_, '_>, errors: &mut Errors) {
    if id.is_set() && !(0..=i64::from(i32::MAX)).contains(&id.number()) {
        errors.push(id.invalid("must be between 0 and 2147483647, inclusive"));
    }
}

fn check_seccomp(profile: &Place<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, file) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "" => errors.push(kind.required("type is required when seccompProfile is set")),
        _ => kind.is_one_of(SECCOMP, errors),
    }
    match (kind.text(), file.is_set()) {
        ("Localhost", false) => errors.push(file.required("must be set when seccomp type is Localhost")),
        ("Localhost", true) => check_descending(&file, errors),
        (_, true) => {
            let shown = go_structs::structure("SeccompProfile", profile.value());
            errors.push(file.invalid_in_go(shown, "can only be set when seccomp type is Localhost"));
        }
        _ => {}
    }
}

fn check_app_armor(profile: &Place<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, name) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "Localhost" if name.text() != name.text().trim() => {
            errors.push(name.invalid("must not be padded with whitespace"));
        }
        "Localhost" if name.text().is_empty() => {
            errors.push(name.required("must be set when AppArmor type is Localhost"));
        }
        "Localhost" if name.text().len() > MAX_PROFILE => errors.push(name.too_long(MAX_PROFILE)),
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" => {
            if name.is_set() {
                errors.push(name.invalid("can only be set when AppArmor type is Localhost"));
            }
        }
        "" => errors.push(kind.required("type is required when appArmorProfile is set")),
        _ => errors.push(kind.unsupported(SECCOMP)),
    }
}

fn check_sysctls(sysctls: &Place<'_, '_>, spec: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        if name.text().is_empty() {
            errors.push(name.required(""));
        } else if !is_sysctl(name.text()) {
            let why = format!(
                "must have at most {MAX_SYSCTL} characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            );
            errors.push(name.invalid(why));
        } else if names.contains(name.text()) {
            errors.push(name.duplicate());
        }
        if let Some(shared) = host_namespace(name.text()).filter(|shared| spec.field(shared).is_true()) {
            errors.push(name.invalid(format!("may not be specified when '{shared}' is true")));
        }
        names.insert(name.text());
    }
}

/// The field that shares the namespace of a sysctl with the host. Names have dots, or else slashes.
fn host_namespace(name: &str) -> Option<&'static str> {
    let has_slashes = name
        .find(['.', '/'])
        .is_some_and(|at| name[at..].starts_with('/'));
    let dotted = |char| match (has_slashes, char) {
        (true, '.') => '/',
        (true, '/') => '.',
        (_, char) => char,
    };
    let name: String = name.chars().map(dotted).collect();
    let starts_with = |prefix: &&str| name.starts_with(prefix);
    if name == "kernel.sem" || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(starts_with) {
        return Some("hostIPC");
    }
    starts_with(&"net.").then_some("hostNetwork")
}

fn is_sysctl(name: &str) -> bool {
    let is_outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let inner = |byte: u8| is_outer(byte) || matches!(byte, b'-' | b'_');
        let ends = [segment.bytes().next(), segment.bytes().last()];
        ends.iter().all(|end| end.is_some_and(is_outer)) && segment.bytes().all(inner)
    };
    name.len() <= MAX_SYSCTL && name.split(['.', '/']).all(is_segment)
}
