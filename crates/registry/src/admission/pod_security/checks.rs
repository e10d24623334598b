//! The checks of the pod security standards, each since the version of Kubernetes that has it.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use watchkeeper_meta::quote;

use super::{Level, Policy, Version};

/// A check, and the first minor version whose policies have it.
struct Check {
    since: u32,
    find: fn(&Subject<'_>, Version) -> Option<Violation>,
    /// The minor version since which a stricter check of the restricted level replaces it there.
    replaced_since: Option<u32>,
}

impl Check {
    const fn new(since: u32, find: fn(&Subject<'_>, Version) -> Option<Violation>) -> Self {
        Self {
            since,
            find,
            replaced_since: None,
        }
    }

    const fn replaced_since(self, minor: u32) -> Self {
        Self {
            replaced_since: Some(minor),
            ..self
        }
    }

    fn applies(&self, policy: Policy) -> bool {
        let is_replaced = self
            .replaced_since
            .is_some_and(|minor| policy.version >= Version::Minor(minor));
        policy.version >= Version::Minor(self.since) && !(is_replaced && policy.level == Level::Restricted)
    }
}

/// The checks of both levels, in the order of their names.
const BASELINE: &[Check] = &[
    Check::new(0, app_armor),
    Check::new(0, added_capabilities).replaced_since(22),
    Check::new(0, host_namespaces),
    Check::new(0, host_paths).replaced_since(0),
    Check::new(0, host_ports),
    Check::new(34, probe_hosts),
    Check::new(0, privileged),
    Check::new(0, |subject, version| match subject.has_own_users_in(version) {
        true => None,
        false => proc_mounts(subject, version),
    })
    .replaced_since(OWN_USERS),
    Check::new(0, selinux),
    Check::new(0, unconfined_annotations).replaced_since(19),
    Check::new(19, unconfined).replaced_since(19),
    Check::new(0, sysctls),
    Check::new(0, host_processes),
];

/// The checks that only the restricted level has.
const RESTRICTED: &[Check] = &[
    Check::new(8, privilege_escalation),
    Check::new(22, capabilities),
    Check::new(OWN_USERS, proc_mounts),
    Check::new(0, volumes),
    Check::new(0, may_be_root),
    Check::new(23, is_root),
    Check::new(19, |subject, version| {
        unconfined(subject, version).or_else(|| without_seccomp(subject, version))
    }),
];

/// Since this minor version, pods with users of their own may be root.
const OWN_USERS: u32 = 35;

/// Since this minor version, pods of Windows need nothing that only Linux has.
const WINDOWS: u32 = 25;

/// Capabilities of every container.
const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Volume types that stay inside the pod.
const PLAIN_VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Sysctls that are namespaced to the pod, and the minor version since which they are allowed.
const PLAIN_SYSCTLS: &[(&str, u32)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_notsent_lowat", 37),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.tcp_wmem", 32),
];

/// Allowed SELinux types, and the minor version since which they are allowed.
const SELINUX_TYPES: &[(&str, u32)] = &[
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// True for the annotations that selected seccomp profiles once.
pub(super) fn is_seccomp_annotation(key: &str) -> bool {
    key == SECCOMP_ANNOTATION || key.starts_with(SECCOMP_CONTAINER_ANNOTATION)
}

/// What a policy forbids in a pod.
#[derive(Debug)]
pub(super) struct Violation {
    /// The violation without names and values.
    pub(super) reason: &'static str,
    details: String,
}

impl Violation {
    fn new(reason: &'static str, details: impl Into<String>) -> Self {
        Self {
            reason,
            details: details.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.details)
    }
}

/// The violations of a policy, in Kubernetes' order: those of both levels first.
pub(super) fn violations(policy: Policy, subject: &Subject<'_>) -> Vec<Violation> {
    let checks = match policy.level {
        Level::Privileged => [].iter().chain(&[]),
        Level::Baseline => BASELINE.iter().chain(&[]),
        Level::Restricted => BASELINE.iter().chain(RESTRICTED),
    };
    let checks = checks.filter(|check| check.applies(policy));
    checks
        .filter_map(|check| (check.find)(subject, policy.version))
        .collect()
}

/// The relevant parts of a pod or template.
pub(super) struct Subject<'v> {
    metadata: &'v Value,
    spec: &'v Value,
    containers: Vec<&'v Value>,
}

impl<'v> Subject<'v> {
    pub(super) fn new(metadata: &'v Value, spec: &'v Value) -> Self {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let containers = lists.iter().filter_map(|list| spec[list].as_array()).flatten();
        Self {
            metadata,
            spec,
            containers: containers.collect(),
        }
    }

    /// The names of the containers that satisfy a predicate, as printed.
    fn named(&self, is: impl Fn(&Value) -> bool) -> Option<Named> {
        let found = self.containers.iter().filter(|container| is(container));
        let names: Vec<String> = found.map(|container| quote(text(&container["name"]))).collect();
        (!names.is_empty()).then_some(Named("container", names))
    }

    /// True if the pod has its own user namespace, and the version knows that its root is unprivileged outside.
    fn has_own_users_in(&self, version: Version) -> bool {
        self.spec["hostUsers"] == false && version >= Version::Minor(OWN_USERS)
    }

    /// True if the pod says that it runs on Windows, and the version excepts it from what only Linux has.
    fn is_of_windows_in(&self, version: Version) -> bool {
        self.spec["os"]["name"] == "windows" && version >= Version::Minor(WINDOWS)
    }

    /// The pod or containers whose security context satisfies a predicate: `pod and container "a"`.
    fn setters(&self, is: impl Fn(&Value) -> bool) -> Option<String> {
        let pod = is(&self.spec["securityContext"]).then(|| "pod".to_owned());
        let named = self.named(|container| is(&container["securityContext"]));
        joined(
            pod.into_iter().chain(named.map(|named| named.to_string())),
            " and ",
        )
    }

    /// The distinct values of a field in the security contexts of the pod and its containers, unless it is allowed.
    fn stated(&self, name: &str, kind: &str, is_allowed: impl Fn(&str) -> bool) -> BTreeSet<&'v str> {
        let contexts = std::iter::once(self.spec).chain(self.containers.iter().copied());
        let stated = contexts.map(|owner| text(&owner["securityContext"][name][kind]));
        stated.filter(|value| !is_allowed(value)).collect()
    }

    /// Annotations with a prefix, in order.
    fn annotations(&self, is: impl Fn(&str) -> bool) -> BTreeSet<(&'v str, &'v str)> {
        let all = self.metadata["annotations"].as_object().into_iter().flatten();
        let all = all.map(|(key, value)| (&**key, text(value)));
        all.filter(|(key, _)| is(key)).collect()
    }
}

fn app_armor(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let is_allowed = |kind: &str| matches!(kind, "" | "RuntimeDefault" | "Localhost");
    let loose = subject
        .annotations(|key| key.starts_with(APP_ARMOR_ANNOTATION))
        .into_iter();
    let loose = loose.filter(|(_, profile)| {
        !profile.is_empty() && *profile != "runtime/default" && !profile.starts_with("localhost/")
    });
    let annotations: Vec<String> = loose
        .map(|(key, profile)| format!("{key}={}", quote(profile)))
        .collect();
    let noun = counted(annotations.len(), "annotation", "annotations");
    let setters = subject.setters(|context| !is_allowed(text(&context["appArmorProfile"]["type"])));
    let annotated = (!annotations.is_empty()).then(|| noun.to_owned());
    let setters = joined(setters.into_iter().chain(annotated), " and ")?;
    let values = subject
        .stated("appArmorProfile", "type", is_allowed)
        .into_iter()
        .map(str::to_owned);
    let values: Vec<String> = values.chain(annotations).collect();
    Some(Violation::new(
        counted(
            values.len(),
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
        ),
        // The quotes of annotations are not escaped.
        format!(
            "{setters} must not set AppArmor profile type to \"{}\"",
            values.join("\", \"")
        ),
    ))
}

fn added_capabilities(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let details = added_beyond(subject, DEFAULT_CAPABILITIES)?;
    Some(Violation::new("non-default capabilities", details))
}

fn added_beyond(subject: &Subject<'_>, allowed: &[&str]) -> Option<String> {
    fn added(container: &Value) -> impl Iterator<Item = &str> {
        let added = container["securityContext"]["capabilities"]["add"].as_array();
        added.into_iter().flatten().map(text)
    }
    let is_forbidden = |name: &&str| !allowed.contains(name);
    let named = subject.named(|container| added(container).any(|name| is_forbidden(&name)))?;
    let all = subject.containers.iter().flat_map(|container| added(container));
    let names = quoted(all.filter(is_forbidden).collect());
    Some(format!(
        "{named} must not include {names} in securityContext.capabilities.add"
    ))
}

fn host_namespaces(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"];
    let shared = shared.iter().filter(|name| subject.spec[**name] == true);
    let details = joined(shared.map(|name| format!("{name}=true")), ", ")?;
    Some(Violation::new("host namespaces", details))
}

fn host_paths(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let volumes = subject.spec["volumes"].as_array().into_iter().flatten();
    let volumes = volumes.filter(|volume| volume["hostPath"].is_object());
    let names: Vec<String> = volumes.map(|volume| quote(text(&volume["name"]))).collect();
    (!names.is_empty()).then(|| Violation::new("hostPath volumes", Named("volume", names).to_string()))
}

fn host_ports(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    fn ports(container: &Value) -> impl Iterator<Item = String> {
        let ports = container["ports"].as_array().into_iter().flatten();
        let ports = ports.filter_map(|port| port["hostPort"].as_i64());
        ports.filter(|port| *port != 0).map(|port| port.to_string())
    }
    let named = subject.named(|container| ports(container).next().is_some())?;
    // In the order of their digits.
    let ports: BTreeSet<String> = subject
        .containers
        .iter()
        .flat_map(|container| ports(container))
        .collect();
    let verb = named.verb("uses", "use");
    let noun = counted(ports.len(), "hostPort", "hostPorts");
    let ports = joined(ports.into_iter(), ", ")?;
    Some(Violation::new(
        "hostPort",
        format!("{named} {verb} {noun} {ports}"),
    ))
}

fn probe_hosts(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    const REASON: &str = "probe or lifecycle host";
    fn hosts(container: &Value) -> impl Iterator<Item = &str> {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
        let handlers = ["postStart", "preStop"].map(|handler| &container["lifecycle"][handler]);
        let actions = probes.into_iter().chain(handlers);
        let hosts = actions.flat_map(|action| {
            [
                text(&action["httpGet"]["host"]),
                text(&action["tcpSocket"]["host"]),
            ]
        });
        hosts.filter(|host| !host.is_empty())
    }
    let Named(kind, mut names) = subject.named(|container| hosts(container).next().is_some())?;
    names.sort();
    let named = Named(kind, names);
    let hosts: BTreeSet<&str> = subject
        .containers
        .iter()
        .flat_map(|container| hosts(container))
        .collect();
    let verb = named.verb("uses", "use");
    let noun = counted(hosts.len(), REASON, "probe or lifecycle hosts");
    let hosts = quoted(hosts);
    Some(Violation::new(REASON, format!("{named} {verb} {noun} {hosts}")))
}

fn privileged(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let named = subject.named(|container| container["securityContext"]["privileged"] == true)?;
    let details = format!("{named} must not set securityContext.privileged=true");
    Some(Violation::new("privileged", details))
}

fn proc_mounts(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    fn mount(container: &Value) -> Option<&str> {
        let mount = text(&container["securityContext"]["procMount"]);
        (!matches!(mount, "" | "Default")).then_some(mount)
    }
    let named = subject.named(|container| mount(container).is_some())?;
    let mounts = quoted(
        subject
            .containers
            .iter()
            .filter_map(|container| mount(container))
            .collect(),
    );
    let details = format!("{named} must not set securityContext.procMount to {mounts}");
    Some(Violation::new("procMount", details))
}

fn selinux(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    let is_allowed = |kind: &str| has(SELINUX_TYPES, kind, version);
    let is_loose = |context: &Value| {
        let options = &context["seLinuxOptions"];
        let is_set = |name: &str| !text(&options[name]).is_empty();
        !is_allowed(text(&options["type"])) || is_set("user") || is_set("role")
    };
    let setters = subject.setters(is_loose)?;
    let types = subject.stated("seLinuxOptions", "type", is_allowed);
    let noun = counted(types.len(), "type", "types");
    let types = (!types.is_empty()).then(|| format!("{noun} {}", quoted(types)));
    let is_stated = |name: &&str| !subject.stated("seLinuxOptions", name, str::is_empty).is_empty();
    let others = ["user", "role"].into_iter().filter(is_stated);
    let others = others.map(|name| format!("{name} may not be set"));
    let all = joined(types.into_iter().chain(others), "; ")?;
    let details = format!("{setters} set forbidden securityContext.seLinuxOptions: {all}");
    Some(Violation::new("seLinuxOptions", details))
}

/// The check of versions in which annotations selected seccomp profiles.
fn unconfined_annotations(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    if version >= Version::Minor(19) {
        return None;
    }
    let is_known = |key: &str| {
        let container = key.strip_prefix(SECCOMP_CONTAINER_ANNOTATION);
        let mut all = subject.containers.iter();
        key == SECCOMP_ANNOTATION || container.is_some_and(|name| all.any(|it| it["name"] == name))
    };
    let loose = subject.annotations(is_known).into_iter().filter(|(_, profile)| {
        !matches!(*profile, "runtime/default" | "docker/default") && !profile.starts_with("localhost/")
    });
    let loose: Vec<String> = loose
        .map(|(key, profile)| format!("{key}={}", quote(profile)))
        .collect();
    let noun = counted(loose.len(), "annotation", "annotations");
    let details = joined(loose.into_iter(), ", ")?;
    Some(Violation::new(
        "seccompProfile",
        format!("forbidden {noun} {details}"),
    ))
}

fn unconfined(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let is_allowed = |kind: &str| matches!(kind, "" | "RuntimeDefault" | "Localhost");
    let setters = subject.setters(|context| !is_allowed(text(&context["seccompProfile"]["type"])))?;
    let values = quoted(subject.stated("seccompProfile", "type", is_allowed));
    let details = format!("{setters} must not set securityContext.seccompProfile.type to {values}");
    Some(Violation::new("seccompProfile", details))
}

fn without_seccomp(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    let has = |context: &Value| !text(&context["seccompProfile"]["type"]).is_empty();
    if has(&subject.spec["securityContext"]) || subject.is_of_windows_in(version) {
        return None;
    }
    let named = subject.named(|container| !has(&container["securityContext"]))?;
    let details = format!(
        r#"pod or {named} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#
    );
    Some(Violation::new("seccompProfile", details))
}

fn sysctls(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    let sysctls = subject.spec["securityContext"]["sysctls"].as_array();
    let names = sysctls.into_iter().flatten().map(|sysctl| text(&sysctl["name"]));
    let names = names.filter(|name| !has(PLAIN_SYSCTLS, name, version));
    let details = joined(names.map(str::to_owned), ", ")?;
    Some(Violation::new("forbidden sysctls", details))
}

fn host_processes(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let setters = subject.setters(|context| context["windowsOptions"]["hostProcess"] == true)?;
    let details = format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Violation::new("hostProcess", details))
}

fn privilege_escalation(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    if subject.is_of_windows_in(version) {
        return None;
    }
    let named =
        subject.named(|container| container["securityContext"]["allowPrivilegeEscalation"] != false)?;
    let details = format!("{named} must set securityContext.allowPrivilegeEscalation=false");
    Some(Violation::new("allowPrivilegeEscalation != false", details))
}

fn capabilities(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    if subject.is_of_windows_in(version) {
        return None;
    }
    let drops_all = |container: &Value| {
        let dropped = container["securityContext"]["capabilities"]["drop"].as_array();
        dropped.into_iter().flatten().any(|name| name == "ALL")
    };
    let kept = subject.named(|container| !drops_all(container));
    let kept = kept.map(|named| format!(r#"{named} must set securityContext.capabilities.drop=["ALL"]"#));
    let added = added_beyond(subject, &["NET_BIND_SERVICE"]);
    let details = joined(kept.into_iter().chain(added), "; ")?;
    Some(Violation::new("unrestricted capabilities", details))
}

fn volumes(subject: &Subject<'_>, _: Version) -> Option<Violation> {
    let volumes = subject.spec["volumes"].as_array().into_iter().flatten();
    let (mut names, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in volumes {
        let mut fields = volume.as_object().into_iter().flatten();
        let source = fields.find(|(name, _)| *name != "name" && !PLAIN_VOLUMES.contains(&name.as_str()));
        if let Some((kind, _)) = source {
            names.push(quote(text(&volume["name"])));
            kinds.insert(&**kind);
        }
    }
    let noun = counted(kinds.len(), "type", "types");
    let named = (!names.is_empty()).then_some(Named("volume", names))?;
    let verb = named.verb("uses", "use");
    let details = format!("{named} {verb} restricted volume {noun} {}", quoted(kinds));
    Some(Violation::new("restricted volume types", details))
}

fn may_be_root(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    if subject.has_own_users_in(version) {
        return None;
    }
    let setters = subject.setters(|context| context["runAsNonRoot"] == false);
    let refused = setters.map(|setters| format!("{setters} must not set securityContext.runAsNonRoot=false"));
    let is_silent = |container: &Value| container["securityContext"]["runAsNonRoot"] != true;
    let details = match refused {
        Some(refused) => refused,
        None if subject.spec["securityContext"]["runAsNonRoot"] == true => return None,
        None => {
            let named = subject.named(is_silent)?;
            format!("pod or {named} must set securityContext.runAsNonRoot=true")
        }
    };
    Some(Violation::new("runAsNonRoot != true", details))
}

fn is_root(subject: &Subject<'_>, version: Version) -> Option<Violation> {
    if subject.has_own_users_in(version) {
        return None;
    }
    let setters = subject.setters(|context| context["runAsUser"] == 0)?;
    Some(Violation::new(
        "runAsUser=0",
        format!("{setters} must not set runAsUser=0"),
    ))
}

/// True if a version allows a value.
fn has(allowed: &[(&str, u32)], value: &str, version: Version) -> bool {
    let mut known = allowed.iter().filter(|(name, _)| *name == value);
    known.any(|(_, since)| version >= Version::Minor(*since))
}

/// `container "a"`, `containers "a", "b"`.
struct Named(&'static str, Vec<String>);

impl Named {
    fn verb(&self, one: &'static str, several: &'static str) -> &'static str {
        counted(self.1.len(), one, several)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", self.0, self.verb("", "s"), self.1.join(", "))
    }
}

fn counted(count: usize, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

fn quoted(values: BTreeSet<&str>) -> String {
    let values: Vec<String> = values.into_iter().map(quote).collect();
    values.join(", ")
}

fn joined(parts: impl Iterator<Item = String>, separator: &str) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(separator))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(level: Level, version: Version, pod: &Value) -> Vec<String> {
        let subject = Subject::new(&pod["metadata"], &pod["spec"]);
        let found = violations(Policy { level, version }, &subject);
        found.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn each_level_forbids_more() {
        let pod = json!({"spec": {
            "hostNetwork": true,
            "volumes": [{"name": "h", "hostPath": {"path": "/"}}],
            "containers": [
                {"name": "a", "securityContext": {
                    "privileged": true, "allowPrivilegeEscalation": false, "runAsNonRoot": true,
                    "capabilities": {"drop": ["ALL"], "add": ["SYS_TIME"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                }},
                {"name": "b", "ports": [{"hostPort": 80}], "securityContext": {
                    "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 0,
                    "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "Unconfined"},
                }},
            ],
        }});
        assert!(found(Level::Privileged, Version::Latest, &pod).is_empty());
        assert_eq!(
            found(Level::Baseline, Version::Latest, &pod),
            [
                r#"non-default capabilities (container "a" must not include "SYS_TIME" in securityContext.capabilities.add)"#,
                "host namespaces (hostNetwork=true)",
                r#"hostPath volumes (volume "h")"#,
                r#"hostPort (container "b" uses hostPort 80)"#,
                r#"privileged (container "a" must not set securityContext.privileged=true)"#,
                r#"seccompProfile (container "b" must not set securityContext.seccompProfile.type to "Unconfined")"#,
            ]
        );
        assert_eq!(
            found(Level::Restricted, Version::Latest, &pod)[3..],
            [
                r#"unrestricted capabilities (container "a" must not include "SYS_TIME" in securityContext.capabilities.add)"#,
                r#"restricted volume types (volume "h" uses restricted volume type "hostPath")"#,
                r#"runAsUser=0 (container "b" must not set runAsUser=0)"#,
                r#"seccompProfile (container "b" must not set securityContext.seccompProfile.type to "Unconfined")"#,
            ]
        );
    }

    #[test]
    fn a_version_has_the_checks_of_its_time() {
        let pod = json!({
            "metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}},
            "spec": {
                "hostUsers": false,
                "securityContext": {
                    "sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}],
                    "seLinuxOptions": {"type": "container_engine_t"},
                },
                "containers": [{
                    "name": "a",
                    "livenessProbe": {"httpGet": {"host": "example.com"}},
                    "lifecycle": {"preStop": {"tcpSocket": {"host": "::1"}}},
                    "securityContext": {"procMount": "Unmasked", "runAsUser": 0},
                }],
            },
        });
        let baseline = |minor| found(Level::Baseline, Version::Minor(minor), &pod);
        let hosts =
            r#"probe or lifecycle host (container "a" uses probe or lifecycle hosts "::1", "example.com")"#;
        let mount = r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#;
        let selinux =
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")";
        let sysctl = "forbidden sysctls (net.ipv4.tcp_rmem)";
        let annotation =
            "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")";
        assert_eq!(found(Level::Baseline, Version::Latest, &pod), [hosts]);
        assert_eq!(baseline(34), [hosts, mount]);
        assert_eq!(baseline(30), [mount, selinux, sysctl]);
        assert_eq!(baseline(18), [mount, selinux, annotation, sysctl]);
        let restricted = |minor| found(Level::Restricted, Version::Minor(minor), &pod);
        assert_eq!(
            restricted(7)[4..],
            [r#"runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)"#]
        );
        let of_users = |minor| {
            restricted(minor)
                .iter()
                .filter(|it| it.starts_with("runAs"))
                .count()
        };
        assert_eq!([22, 23, 34, 35].map(of_users), [1, 2, 2, 0]);
    }

    #[test]
    fn a_pod_of_windows_needs_nothing_of_linux() {
        let pod = json!({"spec": {
            "os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true}, "containers": [{"name": "a"}],
        }});
        assert!(found(Level::Restricted, Version::Minor(25), &pod).is_empty());
        assert_eq!(found(Level::Restricted, Version::Minor(24), &pod).len(), 3);
    }

    #[test]
    fn pod_and_containers_are_named_together_and_values_once() {
        let context = json!({
            "runAsNonRoot": false, "runAsUser": 0, "seccompProfile": {"type": "Unconfined"},
            "appArmorProfile": {"type": "Unconfined"},
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        });
        let ports = json!([{"hostPort": 443}, {"hostPort": 80}, {"hostPort": 443}]);
        let pod = json!({
            "metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "x"}},
            "spec": {"securityContext": context, "containers": [{"name": "a", "securityContext": context, "ports": ports}]},
        });
        assert_eq!(
            found(Level::Restricted, Version::Latest, &pod),
            [
                r#"forbidden AppArmor profiles (pod and container "a" and annotation must not set AppArmor profile type to "Unconfined", "container.apparmor.security.beta.kubernetes.io/a="x"")"#,
                r#"hostPort (container "a" uses hostPorts 443, 80)"#,
                r#"runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)"#,
                r#"runAsUser=0 (pod and container "a" must not set runAsUser=0)"#,
                r#"seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
            ]
        );
    }
}
