//! Pod security: how much a namespace lets its pods do. Its labels name one of three levels, to be enforced, or to be
//! warned of; every level forbids what the one below it does.
//!
//! Not checked: AppArmor in annotations, and what older versions of a level did not forbid.

use serde_json::Value;
use watchkeeper_meta::quote;

/// What pods may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Anything.
    Privileged,
    /// Nothing that is known to lead out of a container.
    Baseline,
    /// Only what well-behaved programs do.
    Restricted,
}

/// Capabilities that any container has.
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

/// Types of processes that SELinux knows for containers.
const SELINUX_TYPES: &[&str] = &[
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// Settings of the kernel that each pod has for itself.
const SAFE_SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Volumes that do not reach out of the pod.
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

/// Why a pod is refused in a namespace with these labels, if it is.
pub(super) fn refusal<'l>(label: impl Fn(&str) -> Option<&'l str>, spec: &Value) -> Option<String> {
    violation(&label, "enforce", spec).map(|violation| format!("violates {violation}"))
}

/// What the author of a pod or of a template should hear.
pub(super) fn warning<'l>(label: impl Fn(&str) -> Option<&'l str>, spec: &Value) -> Option<String> {
    // Who does not say of what to warn means what is enforced.
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
    if level >= Level::Baseline {
        add("forbidden AppArmor profile", spec.app_armor());
        add("host namespaces", spec.host_namespaces());
        add("hostPort", spec.host_ports());
        add("privileged", spec.privileged());
        add("seLinuxOptions", spec.selinux());
        add("forbidden sysctls", spec.sysctls());
        add("hostProcess", spec.host_process());
    }
    if level == Level::Baseline {
        add(
            "non-default capabilities",
            spec.added_capabilities(DEFAULT_CAPABILITIES),
        );
        add("hostPath volumes", spec.host_paths());
        add("procMount", spec.proc_mounts().filter(|_| !spec.has_own_users()));
        add("seccompProfile", spec.unconfined());
    }
    if level == Level::Restricted {
        add("allowPrivilegeEscalation != false", spec.privilege_escalation());
        add("unrestricted capabilities", spec.capabilities());
        add("procMount", spec.proc_mounts());
        add("restricted volume types", spec.volumes());
        // Who is root among users of the pod's own is not root outside.
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

/// The parts of a pod that matter here.
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

    /// The names of containers of which something is true, as texts show them.
    fn named(&self, is: impl Fn(&Value) -> bool) -> Option<Named> {
        let found = self.containers.iter().filter(|container| is(container));
        let names: Vec<String> = found.map(|container| quote(text(&container["name"]))).collect();
        (!names.is_empty()).then_some(Named("container", names))
    }

    fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    /// The pod and the containers of whose security contexts something is true, as texts name them.
    fn setters(&self, is: impl Fn(&Value) -> bool) -> Option<String> {
        let pod = is(&self.spec["securityContext"]).then(|| "pod".to_owned());
        let containers = self.named(|container| is(&container["securityContext"]));
        joined(
            pod.into_iter()
                .chain(containers.map(|containers| containers.to_string())),
            " and ",
        )
    }

    /// Distinct values within the security contexts, in order and in quotes.
    fn values(&self, of: impl Fn(&Value) -> Option<&str>) -> Vec<String> {
        let contexts = self
            .containers
            .iter()
            .map(|container| &container["securityContext"]);
        let contexts = std::iter::once(&self.spec["securityContext"]).chain(contexts);
        let mut values: Vec<String> = contexts.filter_map(of).map(quote).collect();
        values.sort();
        values.dedup();
        values
    }

    fn app_armor(&self) -> Option<String> {
        fn wrong(context: &Value) -> Option<&str> {
            let kind = context["appArmorProfile"]["type"].as_str()?;
            (!matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind)
        }
        let setters = self.setters(|context| wrong(context).is_some())?;
        let values = self.values(wrong).join(", ");
        Some(format!(
            "{setters} must not set AppArmor profile type to {values}"
        ))
    }

    fn proc_mounts(&self) -> Option<String> {
        fn wrong(context: &Value) -> Option<&str> {
            context["procMount"].as_str().filter(|mount| *mount != "Default")
        }
        let named = self.named(|container| wrong(&container["securityContext"]).is_some())?;
        let values = self.values(wrong).join(", ");
        Some(format!(
            "{named} must not set securityContext.procMount to {values}"
        ))
    }

    fn selinux(&self) -> Option<String> {
        fn wrong(context: &Value) -> Option<&str> {
            let kind = context["seLinuxOptions"]["type"].as_str()?;
            (!SELINUX_TYPES.contains(&kind)).then_some(kind)
        }
        let has = |context: &Value, name: &str| !text(&context["seLinuxOptions"][name]).is_empty();
        let setters =
            self.setters(|context| wrong(context).is_some() || has(context, "user") || has(context, "role"))?;
        let types = self.values(wrong);
        let noun = if types.len() == 1 { "type" } else { "types" };
        let types = (!types.is_empty()).then(|| format!("{noun} {}", types.join(", ")));
        let others = ["user", "role"].into_iter().filter_map(|name| {
            let is_set = self.setters(|context| has(context, name)).is_some();
            is_set.then(|| format!("{name} may not be set"))
        });
        let wrong = joined(types.into_iter().chain(others), "; ")?;
        Some(format!(
            "{setters} set forbidden securityContext.seLinuxOptions: {wrong}"
        ))
    }

    fn sysctls(&self) -> Option<String> {
        let sysctls = self.spec["securityContext"]["sysctls"].as_array();
        let names = sysctls.into_iter().flatten().map(|sysctl| text(&sysctl["name"]));
        let names = names.filter(|name| !SAFE_SYSCTLS.contains(name));
        joined(names.map(str::to_owned), ", ")
    }

    fn host_process(&self) -> Option<String> {
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
                "host namespaces (hostNetwork=true)",
                r#"hostPort (container "b" uses hostPort 80)"#,
                r#"privileged (container "a" must not set securityContext.privileged=true)"#,
                r#"non-default capabilities (container "a" must not include "SYS_TIME" in securityContext.capabilities.add)"#,
                r#"hostPath volumes (volume "h")"#,
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
