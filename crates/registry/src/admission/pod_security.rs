//! The PodSecurity plugin. The labels of a namespace select one of three levels to enforce or to warn of; each level
//! includes the restrictions of the one below.
//!
//! Not implemented: probe hosts, annotations, and older versions of a level.

use serde_json::Value;
use watchkeeper_meta::quote;

/// A level of the pod security standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// No restrictions.
    Privileged,
    /// Prevents known privilege escalations.
    Baseline,
    /// Follows hardening best practices.
    Restricted,
}

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

/// Sysctls that are namespaced to the pod.
const PLAIN_SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Allowed SELinux types.
const SELINUX_TYPES: &[&str] = &[
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// The violation that rejects a pod in a namespace with these labels, if any.
pub(super) fn refusal<'l>(label: impl Fn(&str) -> Option<&'l str>, spec: &Value) -> Option<String> {
    violation(&label, "enforce", spec).map(|violation| format!("violates {violation}"))
}

/// The warning for a pod or template. The enforced level is used if no warn level is set.
pub(super) fn warning<'l>(label: impl Fn(&str) -> Option<&'l str>, spec: &Value) -> Option<String> {
    let mode = match label("pod-security.kubernetes.io/warn") {
        Some(_) => "warn",
        None => "enforce",
    };
    violation(&label, mode, spec).map(|violation| format!("would violate {violation}"))
}

fn violation<'l>(label: &impl Fn(&str) -> Option<&'l str>, mode: &str, spec: &Value) -> Option<String> {
    let name = label(&format!("pod-security.kubernetes.io/{mode}"))?;
    let version = label(&format!("pod-security.kubernetes.io/{mode}-version")).unwrap_or("latest");
    let level = match name {
        "baseline" => Level::Baseline,
        "restricted" => Level::Restricted,
        _ => Level::Privileged,
    };
    let violations = violations(level, spec);
    let policy = quote(&format!("{name}:{version}"));
    (!violations.is_empty()).then(|| format!("PodSecurity {policy}: {}", violations.join(", ")))
}

fn violations(level: Level, spec: &Value) -> Vec<String> {
    let spec = Spec::of(spec);
    let mut found = Vec::new();
    let mut add = |reason: &str, details: Option<String>| {
        found.extend(details.map(|details| format!("{reason} ({details})")));
    };
    // In the order of Kubernetes' check names.
    let is_baseline = level == Level::Baseline;
    if level >= Level::Baseline {
        add(spec.app_armor_reason(), spec.app_armor());
    }
    if is_baseline {
        let added = spec.added_capabilities(DEFAULT_CAPABILITIES);
        add("non-default capabilities", added);
    }
    if level >= Level::Baseline {
        add("host namespaces", spec.host_namespaces());
    }
    if is_baseline {
        add("hostPath volumes", spec.host_paths());
    }
    if level >= Level::Baseline {
        add("hostPort", spec.host_ports());
        add("privileged", spec.privileged());
    }
    if is_baseline && !spec.has_own_users() {
        add("procMount", spec.proc_mounts());
    }
    if level >= Level::Baseline {
        add("seLinuxOptions", spec.selinux());
    }
    if is_baseline {
        add("seccompProfile", spec.unconfined());
    }
    if level >= Level::Baseline {
        add("forbidden sysctls", spec.sysctls());
        add("hostProcess", spec.host_processes());
    }
    if level == Level::Restricted {
        add("allowPrivilegeEscalation != false", spec.privilege_escalation());
        add("unrestricted capabilities", spec.capabilities());
        add("procMount", spec.proc_mounts());
        add("restricted volume types", spec.volumes());
        if !spec.has_own_users() {
            add("runAsNonRoot != true", spec.may_be_root());
            add("runAsUser=0", spec.is_root());
        }
        add(
            "seccompProfile",
            spec.unconfined().or_else(|| spec.without_seccomp()),
        );
    }
    found
}

/// The relevant parts of a pod.
struct Spec<'v> {
    spec: &'v Value,
    containers: Vec<&'v Value>,
}

impl<'v> Spec<'v> {
    fn of(spec: &'v Value) -> Self {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let containers = lists.iter().filter_map(|list| spec[list].as_array()).flatten();
        Self {
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

    /// True if the pod has its own user namespace: its root is unprivileged outside.
    fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
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

    /// The distinct values of a field in the security contexts of the pod and its containers.
    fn stated(&self, name: &str, kind: &str) -> Vec<&'v str> {
        let contexts = std::iter::once(self.spec).chain(self.containers.iter().copied());
        let stated = contexts.map(|owner| text(&owner["securityContext"][name][kind]));
        let mut stated: Vec<&str> = stated.collect();
        stated.sort_unstable();
        stated.dedup();
        stated
    }

    fn app_armor_profiles(&self) -> Vec<String> {
        let stated = self.stated("appArmorProfile", "type").into_iter();
        stated.filter(|kind| is_loose_profile(kind)).map(quote).collect()
    }

    fn app_armor_reason(&self) -> &'static str {
        match self.app_armor_profiles().len() {
            1 => "forbidden AppArmor profile",
            _ => "forbidden AppArmor profiles",
        }
    }

    fn app_armor(&self) -> Option<String> {
        let setters = self.setters(|context| is_loose_profile(text(&context["appArmorProfile"]["type"])))?;
        let profiles = self.app_armor_profiles().join(", ");
        Some(format!(
            "{setters} must not set AppArmor profile type to {profiles}"
        ))
    }

    fn proc_mounts(&self) -> Option<String> {
        let mount = |container: &'v Value| text(&container["securityContext"]["procMount"]);
        let is_loose = |mount: &str| !matches!(mount, "" | "Default");
        let named = self.named(|container| is_loose(text(&container["securityContext"]["procMount"])))?;
        let mounts = self.containers.iter().map(|container| mount(container));
        let mut mounts: Vec<String> = mounts.filter(|mount| is_loose(mount)).map(quote).collect();
        mounts.sort();
        mounts.dedup();
        let mounts = mounts.join(", ");
        Some(format!(
            "{named} must not set securityContext.procMount to {mounts}"
        ))
    }

    fn selinux(&self) -> Option<String> {
        let is_loose = |context: &Value| {
            let options = &context["seLinuxOptions"];
            let is_set = |name: &str| !text(&options[name]).is_empty();
            !SELINUX_TYPES.contains(&text(&options["type"])) || is_set("user") || is_set("role")
        };
        let setters = self.setters(is_loose)?;
        let types = self.stated("seLinuxOptions", "type").into_iter();
        let types: Vec<String> = types
            .filter(|kind| !SELINUX_TYPES.contains(kind))
            .map(quote)
            .collect();
        let noun = if types.len() == 1 { "type" } else { "types" };
        let types = (!types.is_empty()).then(|| format!("{noun} {}", types.join(", ")));
        let is_stated = |name: &&str| {
            self.stated("seLinuxOptions", name)
                .iter()
                .any(|text| !text.is_empty())
        };
        let others = ["user", "role"].into_iter().filter(is_stated);
        let others = others.map(|name| format!("{name} may not be set"));
        let all = joined(types.into_iter().chain(others), "; ").unwrap_or_default();
        Some(format!(
            "{setters} set forbidden securityContext.seLinuxOptions: {all}"
        ))
    }

    fn sysctls(&self) -> Option<String> {
        let sysctls = self.spec["securityContext"]["sysctls"].as_array();
        let names = sysctls.into_iter().flatten().map(|sysctl| text(&sysctl["name"]));
        let names = names.filter(|name| !PLAIN_SYSCTLS.contains(name));
        joined(names.map(str::to_owned), ", ")
    }

    fn host_processes(&self) -> Option<String> {
        let setters = self.setters(|context| context["windowsOptions"]["hostProcess"] == true)?;
        Some(format!(
            "{setters} must not set securityContext.windowsOptions.hostProcess=true"
        ))
    }

    fn host_namespaces(&self) -> Option<String> {
        let shared = ["hostNetwork", "hostPID", "hostIPC"];
        let shared = shared.iter().filter(|name| self.spec[**name] == true);
        joined(shared.map(|name| format!("{name}=true")), ", ")
    }

    fn host_ports(&self) -> Option<String> {
        let ports = |container: &Value| -> Vec<String> {
            let ports = container["ports"].as_array().into_iter().flatten();
            let ports = ports.filter_map(|port| port["hostPort"].as_i64());
            ports
                .filter(|port| *port != 0)
                .map(|port| port.to_string())
                .collect()
        };
        let named = self.named(|container| !ports(container).is_empty())?;
        let ports: Vec<String> = self
            .containers
            .iter()
            .flat_map(|container| ports(container))
            .collect();
        let (verb, noun) = (
            named.verb("uses", "use"),
            if ports.len() == 1 { "hostPort" } else { "hostPorts" },
        );
        Some(format!("{named} {verb} {noun} {}", ports.join(", ")))
    }

    fn privileged(&self) -> Option<String> {
        let named = self.named(|container| container["securityContext"]["privileged"] == true)?;
        Some(format!("{named} must not set securityContext.privileged=true"))
    }

    fn added_capabilities(&self, allowed: &[&str]) -> Option<String> {
        let added = |container: &Value| -> Vec<String> {
            let added = container["securityContext"]["capabilities"]["add"].as_array();
            let added = added.into_iter().flatten().map(text);
            added.filter(|name| !allowed.contains(name)).map(quote).collect()
        };
        let named = self.named(|container| !added(container).is_empty())?;
        let mut names: Vec<String> = self
            .containers
            .iter()
            .flat_map(|container| added(container))
            .collect();
        names.sort();
        names.dedup();
        let names = names.join(", ");
        Some(format!(
            "{named} must not include {names} in securityContext.capabilities.add"
        ))
    }

    fn capabilities(&self) -> Option<String> {
        let drops_all = |container: &Value| {
            let dropped = container["securityContext"]["capabilities"]["drop"].as_array();
            dropped.into_iter().flatten().any(|name| name == "ALL")
        };
        let kept = self.named(|container| !drops_all(container));
        let kept = kept.map(|named| format!(r#"{named} must set securityContext.capabilities.drop=["ALL"]"#));
        joined(
            kept.into_iter()
                .chain(self.added_capabilities(&["NET_BIND_SERVICE"])),
            "; ",
        )
    }

    fn privilege_escalation(&self) -> Option<String> {
        let named =
            self.named(|container| container["securityContext"]["allowPrivilegeEscalation"] != false)?;
        Some(format!(
            "{named} must set securityContext.allowPrivilegeEscalation=false"
        ))
    }

    fn host_paths(&self) -> Option<String> {
        let volumes = self.spec["volumes"].as_array().into_iter().flatten();
        let volumes = volumes.filter(|volume| volume["hostPath"].is_object());
        let names: Vec<String> = volumes.map(|volume| quote(text(&volume["name"]))).collect();
        (!names.is_empty()).then(|| Named("volume", names).to_string())
    }

    fn volumes(&self) -> Option<String> {
        let volumes = self.spec["volumes"].as_array().into_iter().flatten();
        let (mut names, mut kinds) = (Vec::new(), Vec::new());
        for volume in volumes {
            let mut fields = volume.as_object().into_iter().flatten();
            let source = fields.find(|(name, _)| *name != "name" && !PLAIN_VOLUMES.contains(&name.as_str()));
            if let Some((kind, _)) = source {
                names.push(quote(text(&volume["name"])));
                kinds.push(quote(kind));
            }
        }
        kinds.sort();
        kinds.dedup();
        let noun = if kinds.len() == 1 { "type" } else { "types" };
        let named = (!names.is_empty()).then_some(Named("volume", names))?;
        let verb = named.verb("uses", "use");
        Some(format!(
            "{named} {verb} restricted volume {noun} {}",
            kinds.join(", ")
        ))
    }

    fn may_be_root(&self) -> Option<String> {
        let pod = &self.spec["securityContext"]["runAsNonRoot"];
        let of = |container: &Value| container["securityContext"]["runAsNonRoot"].clone();
        let refused = self.named(|container| of(container) == false);
        let refused = refused.map(|named| format!("{named} must not set securityContext.runAsNonRoot=false"));
        let all_say = self.containers.iter().all(|container| of(container) == true);
        let pod_refuses = (*pod == false && !all_say)
            .then(|| "pod must not set securityContext.runAsNonRoot=false".to_owned());
        let found = joined(pod_refuses.into_iter().chain(refused), "; ");
        if found.is_some() || *pod == true {
            return found;
        }
        let silent = self.named(|container| of(container) != true)?;
        Some(format!(
            "pod or {silent} must set securityContext.runAsNonRoot=true"
        ))
    }

    fn is_root(&self) -> Option<String> {
        let pod = self.spec["securityContext"]["runAsUser"] == 0;
        let pod = pod.then(|| "pod must not set runAsUser=0".to_owned());
        let named = self.named(|container| container["securityContext"]["runAsUser"] == 0);
        let named = named.map(|named| format!("{named} must not set runAsUser=0"));
        joined(pod.into_iter().chain(named), "; ")
    }

    fn unconfined(&self) -> Option<String> {
        let is_unconfined = |context: &Value| context["seccompProfile"]["type"] == "Unconfined";
        let rule = r#"must not set securityContext.seccompProfile.type to "Unconfined""#;
        let pod = is_unconfined(&self.spec["securityContext"]).then(|| format!("pod {rule}"));
        let named = self.named(|container| is_unconfined(&container["securityContext"]));
        joined(
            pod.into_iter()
                .chain(named.map(|named| format!("{named} {rule}"))),
            "; ",
        )
    }

    fn without_seccomp(&self) -> Option<String> {
        let has = |context: &Value| !text(&context["seccompProfile"]["type"]).is_empty();
        if has(&self.spec["securityContext"]) {
            return None;
        }
        let named = self.named(|container| !has(&container["securityContext"]))?;
        Some(format!(
            r#"pod or {named} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#
        ))
    }
}

/// True for an AppArmor profile that is unconfined or unknown.
fn is_loose_profile(kind: &str) -> bool {
    !matches!(kind, "" | "RuntimeDefault" | "Localhost")
}

/// `container "a"`, `containers "a", "b"`.
struct Named(&'static str, Vec<String>);

impl Named {
    fn verb(&self, one: &'static str, several: &'static str) -> &'static str {
        if self.1.len() == 1 { one } else { several }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{} {}", self.0, self.verb("", "s"), self.1.join(", "))
    }
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

    #[test]
    fn each_level_forbids_more() {
        let spec = json!({
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
        });
        assert!(violations(Level::Privileged, &spec).is_empty());
        assert_eq!(
            violations(Level::Baseline, &spec),
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
            violations(Level::Restricted, &spec)[3..],
            [
                r#"unrestricted capabilities (container "a" must not include "SYS_TIME" in securityContext.capabilities.add)"#,
                r#"restricted volume types (volume "h" uses restricted volume type "hostPath")"#,
                r#"runAsUser=0 (container "b" must not set runAsUser=0)"#,
                r#"seccompProfile (container "b" must not set securityContext.seccompProfile.type to "Unconfined")"#,
            ]
        );
    }
}
