//! A pod's spec as Go prints its own structs: every field by its Go name, those that nobody set too. Kubernetes shows
//! the change of a pod as the difference of two such texts.
//!
//! The layout is data. A line is a struct and its fields in order; a field without a mark is a text, and marks say what
//! else it is:
//!
//! ```text
//! Name?        a pointer, list or map of plain values: null unless it is set
//! Name#        a number     Name!  true or false     Name%  a number or a text
//! Name=Struct  a struct     Name?Struct  a pointer to one     Name*Struct  a list of them
//! +Struct      the fields of another struct, as if they stood here
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::{Value, json};
use watchkeeper_meta::go_json;

const LAYOUT: &str = "\
PodSpec Volumes*Volume InitContainers*Container Containers*Container EphemeralContainers*EphemeralContainer \
  RestartPolicy TerminationGracePeriodSeconds? ActiveDeadlineSeconds? DNSPolicy NodeSelector? ServiceAccountName \
  AutomountServiceAccountToken? NodeName SecurityContext?PodSecurityContext ImagePullSecrets*LocalObjectReference \
  Hostname Subdomain SetHostnameAsFQDN? Affinity?Affinity SchedulerName Tolerations*Toleration HostAliases*HostAlias \
  PriorityClassName Priority? PreemptionPolicy? DNSConfig?PodDNSConfig ReadinessGates*PodReadinessGate \
  RuntimeClassName? Overhead? EnableServiceLinks? TopologySpreadConstraints*TopologySpreadConstraint OS?PodOS \
  SchedulingGates*PodSchedulingGate ResourceClaims*PodResourceClaim Resources?ResourceRequirements HostnameOverride?
Container Name Image Command? Args? WorkingDir Ports*ContainerPort EnvFrom*EnvFromSource Env*EnvVar \
  Resources=ResourceRequirements ResizePolicy*ContainerResizePolicy RestartPolicy? \
  RestartPolicyRules*ContainerRestartRule VolumeMounts*VolumeMount VolumeDevices*VolumeDevice LivenessProbe?Probe \
  ReadinessProbe?Probe StartupProbe?Probe Lifecycle?Lifecycle TerminationMessagePath TerminationMessagePolicy \
  ImagePullPolicy SecurityContext?SecurityContext Stdin! StdinOnce! TTY!
EphemeralContainer +Container TargetContainerName
ContainerPort Name HostPort# ContainerPort# Protocol HostIP
EnvFromSource Prefix ConfigMapRef?OptionalReference SecretRef?OptionalReference
OptionalReference Name Optional?
EnvVar Name Value ValueFrom?EnvVarSource
EnvVarSource FieldRef?ObjectFieldSelector ResourceFieldRef?ResourceFieldSelector ConfigMapKeyRef?KeySelector \
  SecretKeyRef?KeySelector FileKeyRef?FileKeySelector
ObjectFieldSelector APIVersion FieldPath
ResourceFieldSelector ContainerName Resource Divisor
KeySelector Name Key Optional?
FileKeySelector VolumeName Path Key Optional?
ResourceRequirements Limits? Requests? Claims*ResourceClaim
ResourceClaim Name Request
ContainerResizePolicy ResourceName RestartPolicy
ContainerRestartRule Action ExitCodes?ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes Operator Values?
VolumeMount Name ReadOnly! RecursiveReadOnly? MountPath SubPath MountPropagation? SubPathExpr
VolumeDevice Name DevicePath
Probe +Handler InitialDelaySeconds# TimeoutSeconds# PeriodSeconds# SuccessThreshold# FailureThreshold# \
  TerminationGracePeriodSeconds?
Handler Exec?ExecAction HTTPGet?HTTPGetAction TCPSocket?TCPSocketAction GRPC?GRPCAction
ExecAction Command?
HTTPGetAction Path Port% Host Scheme HTTPHeaders*HTTPHeader
HTTPHeader Name Value
TCPSocketAction Port% Host
GRPCAction Port# Service?
Lifecycle PostStart?LifecycleHandler PreStop?LifecycleHandler StopSignal?
LifecycleHandler Exec?ExecAction HTTPGet?HTTPGetAction TCPSocket?TCPSocketAction Sleep?SleepAction
SleepAction Seconds#
SecurityContext Capabilities?Capabilities Privileged? SELinuxOptions?SELinuxOptions \
  WindowsOptions?WindowsSecurityContextOptions RunAsUser? RunAsGroup? RunAsNonRoot? ReadOnlyRootFilesystem? \
  AllowPrivilegeEscalation? ProcMount? SeccompProfile?Profile AppArmorProfile?Profile
Capabilities Add? Drop?
SELinuxOptions User Role Type Level
WindowsSecurityContextOptions GMSACredentialSpecName? GMSACredentialSpec? RunAsUserName? HostProcess?
Profile Type LocalhostProfile?
PodSecurityContext HostNetwork! HostPID! HostIPC! ShareProcessNamespace? HostUsers? SELinuxOptions?SELinuxOptions \
  WindowsOptions?WindowsSecurityContextOptions RunAsUser? RunAsGroup? RunAsNonRoot? SupplementalGroups? \
  SupplementalGroupsPolicy? FSGroup? FSGroupChangePolicy? Sysctls*Sysctl SeccompProfile?Profile \
  AppArmorProfile?Profile SELinuxChangePolicy?
Sysctl Name Value
LocalObjectReference Name
Volume Name HostPath?HostPath EmptyDir?EmptyDir GCEPersistentDisk? AWSElasticBlockStore? GitRepo? Secret?SecretSource \
  NFS?NFS ISCSI? Glusterfs? PersistentVolumeClaim?PersistentVolumeClaim RBD? Quobyte? FlexVolume? Cinder? CephFS? \
  Flocker? DownwardAPI? FC? AzureFile? ConfigMap?ConfigMapSource VsphereVolume? AzureDisk? PhotonPersistentDisk? \
  Projected? PortworxVolume? ScaleIO? StorageOS? CSI? Ephemeral? Image?ImageSource
HostPath Path Type?
EmptyDir Medium SizeLimit? Mode?
SecretSource SecretName Items*KeyToPath DefaultMode? Optional?
ConfigMapSource Name Items*KeyToPath DefaultMode? Optional?
KeyToPath Key Path Mode?
NFS Server Path ReadOnly!
PersistentVolumeClaim ClaimName ReadOnly!
ImageSource Reference PullPolicy
Affinity NodeAffinity? PodAffinity? PodAntiAffinity?
Toleration Key Operator Value Effect TolerationSeconds?
HostAlias IP Hostnames?
PodDNSConfig Nameservers? Searches? Options*DNSOption
DNSOption Name Value?
PodReadinessGate ConditionType
TopologySpreadConstraint MaxSkew# TopologyKey WhenUnsatisfiable LabelSelector? MinDomains? NodeAffinityPolicy? \
  NodeTaintsPolicy? MatchLabelKeys?
PodOS Name
PodSchedulingGate Name
PodResourceClaim Name ResourceClaimName? ResourceClaimTemplateName?
";

/// Fields whose JSON names do not follow from their Go names.
const RENAMED: &[(&str, &str)] = &[
    ("CephFS", "cephfs"),
    ("StorageOS", "storageos"),
    ("APIVersion", "apiVersion"),
];

/// What a spec says of its sandbox, which Go keeps with the security context.
const SANDBOX: &[&str] = &[
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "hostUsers",
];

/// The structs, by name; each token is a field.
static STRUCTS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let lines = LAYOUT.lines().map(str::split_whitespace);
    lines
        .filter_map(|mut words| Some((words.next()?, words.collect())))
        .collect()
});

/// A spec, line by line.
pub(super) fn lines(spec: &Value) -> Vec<String> {
    let mut spec = spec.clone();
    for name in SANDBOX {
        if let Some(value) = spec.get(name).cloned() {
            spec["securityContext"][name] = value;
        }
    }
    let mut text = String::new();
    structure("PodSpec", &spec, 0, &mut text);
    text.lines().map(str::to_owned).collect()
}

fn structure(name: &str, value: &Value, depth: usize, out: &mut String) {
    out.push('{');
    let mut first = true;
    members(name, value, depth + 1, &mut first, out);
    new_line(depth, out);
    out.push('}');
}

fn members(name: &str, value: &Value, depth: usize, first: &mut bool, out: &mut String) {
    for token in STRUCTS.get(name).into_iter().flatten() {
        if let Some(inner) = token.strip_prefix('+') {
            members(inner, value, depth, first, out);
            continue;
        }
        if !std::mem::replace(first, false) {
            out.push(',');
        }
        new_line(depth, out);
        let end = token.find(['?', '#', '!', '%', '=', '*']).unwrap_or(token.len());
        let (field, mark) = token.split_at(end);
        let _ = write!(out, "{field:?}: ");
        member(mark, &value[json_name(field)], depth, out);
    }
}

fn member(mark: &str, value: &Value, depth: usize, out: &mut String) {
    let (mark, inner) = mark.split_at(usize::from(!mark.is_empty()));
    match (mark, value) {
        ("=", value) => structure(inner, value, depth, out),
        ("*" | "?", Value::Null) => out.push_str("null"),
        ("*", value) => {
            let items: Vec<&Value> = value.as_array().into_iter().flatten().collect();
            list('[', ']', items.into_iter(), depth, out, |item, out| {
                structure(inner, item, depth + 1, out);
            });
        }
        ("?", value) if !inner.is_empty() => structure(inner, value, depth, out),
        ("#" | "%", Value::Null) => out.push('0'),
        ("!", Value::Null) => out.push_str("false"),
        ("", Value::Null) => out.push_str("\"\""),
        (_, value) => plain(value, depth, out),
    }
}

/// A value that is no struct of Go's.
fn plain(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            list('[', ']', items.iter(), depth, out, |item, out| {
                plain(item, depth + 1, out)
            });
        }
        Value::Object(fields) if !fields.is_empty() => {
            list('{', '}', fields.iter(), depth, out, |(name, value), out| {
                let _ = write!(out, "{}: ", go_json(&json!(name)));
                plain(value, depth + 1, out);
            });
        }
        scalar => out.push_str(&go_json(scalar)),
    }
}

fn list<T>(
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    depth: usize,
    out: &mut String,
    print: impl Fn(T, &mut String),
) {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        new_line(depth + 1, out);
        print(item, out);
    }
    new_line(depth, out);
    out.push(close);
}

fn new_line(depth: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth));
}

/// `DNSPolicy` is `dnsPolicy`, `TTY` is `tty`.
fn json_name(field: &str) -> String {
    if let Some((_, name)) = RENAMED.iter().find(|(renamed, _)| *renamed == field) {
        return (*name).to_owned();
    }
    let capitals = field.bytes().take_while(u8::is_ascii_uppercase).count();
    let lowered = match capitals {
        all if all == field.len() => all,
        0 | 1 => capitals,
        // The last one begins the next word.
        capitals => capitals - 1,
    };
    field[..lowered].to_ascii_lowercase() + &field[lowered..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_struct_is_laid_out() {
        for token in STRUCTS.values().flatten() {
            let name = token.trim_start_matches(|c: char| c == '+');
            let inner = if token.starts_with('+') {
                Some(name)
            } else {
                token.split_once(['=', '*', '?']).map(|(_, inner)| inner)
            };
            if let Some(inner) = inner.filter(|inner| !inner.is_empty()) {
                assert!(STRUCTS.contains_key(inner), "{inner}");
            }
        }
    }

    #[test]
    fn go_names_become_json_names() {
        for (field, name) in [
            ("DNSPolicy", "dnsPolicy"),
            ("TTY", "tty"),
            ("HostIP", "hostIP"),
            ("SELinuxOptions", "seLinuxOptions"),
            ("HTTPGet", "httpGet"),
            ("Name", "name"),
            ("APIVersion", "apiVersion"),
        ] {
            assert_eq!(json_name(field), name);
        }
    }
}
