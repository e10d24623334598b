//! Objects as Go prints its own structs: every field by its Go name, those that nobody set too. The texts of some
//! faults quote such structs, and Kubernetes shows the change of a pod as the difference of two of them.
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
use std::sync::LazyLock;

use serde_json::{Value, json};
use watchkeeper_meta::go_json;
use watchkeeper_wire::schema::{Schema, Shape};

const LAYOUT: &str = "\
PodSpec Volumes*Volume InitContainers*Container Containers*Container EphemeralContainers*EphemeralContainer \
  RestartPolicy TerminationGracePeriodSeconds? ActiveDeadlineSeconds? DNSPolicy NodeSelector? ServiceAccountName \
  DeprecatedServiceAccount AutomountServiceAccountToken? NodeName HostNetwork! HostPID! HostIPC! \
  ShareProcessNamespace? SecurityContext?PodSecurityContext ImagePullSecrets*LocalObjectReference Hostname Subdomain \
  Affinity?Affinity SchedulerName Tolerations*Toleration HostAliases*HostAlias PriorityClassName Priority? \
  DNSConfig?PodDNSConfig ReadinessGates*PodReadinessGate RuntimeClassName? EnableServiceLinks? PreemptionPolicy? \
  Overhead? TopologySpreadConstraints*TopologySpreadConstraint SetHostnameAsFQDN? OS?PodOS HostUsers? \
  SchedulingGates*PodSchedulingGate ResourceClaims*PodResourceClaim Resources?ResourceRequirements HostnameOverride? \
  SchedulingGroup? EvictionResponders?
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
VolumeMount Name ReadOnly! RecursiveReadOnly? MountPath SubPath MountPropagation? SubPathExpr BindMountOptions?
VolumeDevice Name DevicePath
Probe +ProbeHandler InitialDelaySeconds# TimeoutSeconds# PeriodSeconds# SuccessThreshold# FailureThreshold# \
  TerminationGracePeriodSeconds?
ProbeHandler Exec?ExecAction HTTPGet?HTTPGetAction TCPSocket?TCPSocketAction GRPC?GRPCAction
ExecAction Command?
HTTPGetAction Path Port% Host Scheme HTTPHeaders*HTTPHeader Protocol?
HTTPHeader Name Value
TCPSocketAction Port% Host
GRPCAction Port% Service? Mode?
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
PodSecurityContext SELinuxOptions?SELinuxOptions WindowsOptions?WindowsSecurityContextOptions RunAsUser? RunAsGroup? \
  RunAsNonRoot? SupplementalGroups? SupplementalGroupsPolicy? FSGroup? Sysctls*Sysctl FSGroupChangePolicy? \
  SeccompProfile?Profile AppArmorProfile?Profile SELinuxChangePolicy?
Sysctl Name Value
LocalObjectReference Name
Volume Name HostPath?HostPathVolumeSource EmptyDir?EmptyDirVolumeSource GCEPersistentDisk? AWSElasticBlockStore? \
  GitRepo? Secret?SecretVolumeSource NFS?NFSVolumeSource ISCSI? Glusterfs? \
  PersistentVolumeClaim?PersistentVolumeClaimVolumeSource RBD? FlexVolume? Cinder? CephFS? Flocker? \
  DownwardAPI?DownwardAPIVolumeSource FC? AzureFile? ConfigMap?ConfigMapVolumeSource VsphereVolume? Quobyte? \
  AzureDisk? PhotonPersistentDisk? Projected?ProjectedVolumeSource PortworxVolume? ScaleIO? StorageOS? CSI? \
  Ephemeral? Image?ImageVolumeSource
ProjectedVolumeSource Sources*VolumeProjection DefaultMode? DefaultUser?
VolumeProjection Secret?KeyProjection DownwardAPI?DownwardAPIProjection ConfigMap?KeyProjection \
  ServiceAccountToken?ServiceAccountTokenProjection ClusterTrustBundle? PodCertificate?
KeyProjection Name Items*KeyToPath Optional?
DownwardAPIProjection Items*DownwardAPIVolumeFile
DownwardAPIVolumeSource Items*DownwardAPIVolumeFile DefaultMode? DefaultUser?
DownwardAPIVolumeFile Path FieldRef?ObjectFieldSelector ResourceFieldRef?ResourceFieldSelector Mode? User?
ServiceAccountTokenProjection Audience ExpirationSeconds# Path
HostPathVolumeSource Path Type?
EmptyDirVolumeSource Medium SizeLimit? Mode?
SecretVolumeSource SecretName Items*KeyToPath DefaultMode? Optional? DefaultUser?
ConfigMapVolumeSource Name Items*KeyToPath DefaultMode? Optional? DefaultUser?
KeyToPath Key Path Mode? User?
NFSVolumeSource Server Path ReadOnly!
PersistentVolumeClaimVolumeSource ClaimName ReadOnly!
ImageVolumeSource Reference PullPolicy
Affinity NodeAffinity?NodeAffinity PodAffinity?PodAffinity PodAntiAffinity?PodAffinity
NodeAffinity RequiredDuringSchedulingIgnoredDuringExecution?NodeSelector \
  PreferredDuringSchedulingIgnoredDuringExecution*PreferredSchedulingTerm
NodeSelector NodeSelectorTerms*NodeSelectorTerm
NodeSelectorTerm MatchExpressions*NodeSelectorRequirement MatchFields*NodeSelectorRequirement
NodeSelectorRequirement Key Operator Values?
PreferredSchedulingTerm Weight# Preference=NodeSelectorTerm
PodAffinity RequiredDuringSchedulingIgnoredDuringExecution*PodAffinityTerm \
  PreferredDuringSchedulingIgnoredDuringExecution*WeightedPodAffinityTerm
WeightedPodAffinityTerm Weight# PodAffinityTerm=PodAffinityTerm
PodAffinityTerm LabelSelector? Namespaces? TopologyKey NamespaceSelector? MatchLabelKeys? MismatchLabelKeys?
Toleration Key Operator Value Effect TolerationSeconds?
HostAlias IP Hostnames?
PodDNSConfig Nameservers? Searches? Options*PodDNSConfigOption
PodDNSConfigOption Name Value?
PodReadinessGate ConditionType
TopologySpreadConstraint MaxSkew# TopologyKey WhenUnsatisfiable LabelSelector? MinDomains? NodeAffinityPolicy? \
  NodeTaintsPolicy? MatchLabelKeys?
PodOS Name
PodSchedulingGate Name
PodResourceClaim Name ResourceClaimName? ResourceClaimTemplateName?
DeploymentStrategy Type RollingUpdate?RollingUpdateDeployment
RollingUpdateDeployment MaxUnavailable% MaxSurge%
DaemonSetUpdateStrategy Type RollingUpdate?RollingUpdateDaemonSet
RollingUpdateDaemonSet MaxUnavailable% MaxSurge%
StatefulSetUpdateStrategy Type RollingUpdate?RollingUpdateStatefulSetStrategy
RollingUpdateStatefulSetStrategy Partition# MaxUnavailable?
NodeAddress Type Address
CSINodeDriver Name NodeID TopologyKeys? Allocatable?VolumeNodeResources
VolumeNodeResources Count?
PodDisruptionBudgetSpec MinAvailable? Selector? MaxUnavailable? UnhealthyPodEvictionPolicy?
PodIP IP
HostIP IP
RoleRef APIGroup Kind Name
ServicePort Name Protocol AppProtocol? Port# TargetPort% NodePort#
CSINodeDriver Name NodeID TopologyKeys? Allocatable?
ResourceClaimSpec Devices=DeviceClaim
DeviceClaim Requests*DeviceRequest Constraints*DeviceConstraint Config*DeviceClaimConfiguration
DeviceRequest Name Exactly?ExactDeviceRequest FirstAvailable*DeviceSubRequest
ExactDeviceRequest DeviceClassName Selectors*DeviceSelector AllocationMode Count# AdminAccess? \
  Tolerations*DeviceToleration Capacity?CapacityRequirements DerivedAttributes*DeviceDerivedAttribute
DeviceSubRequest Name DeviceClassName Selectors*DeviceSelector AllocationMode Count# Tolerations*DeviceToleration \
  Capacity?CapacityRequirements DerivedAttributes*DeviceDerivedAttribute
DeviceSelector CEL?CELDeviceSelector
CELDeviceSelector Expression
DeviceToleration Key Operator Value Effect TolerationSeconds?
CapacityRequirements Requests?
DeviceDerivedAttribute Name Expression
DeviceConstraint Requests? MatchAttribute? DistinctAttribute?
DeviceClaimConfiguration Requests? Opaque?OpaqueDeviceConfiguration
OpaqueDeviceConfiguration Driver Parameters?
SuccessPolicy Rules*SuccessPolicyRule
SuccessPolicyRule SucceededIndexes? SucceededCount?
Taint Key Value Effect TimeAdded?
";

/// Fields whose JSON names do not follow from their Go names.
const RENAMED: &[(&str, &str)] = &[
    ("CephFS", "cephfs"),
    ("StorageOS", "storageos"),
    ("APIVersion", "apiVersion"),
    ("DeprecatedServiceAccount", "serviceAccount"),
];

/// The structs, by name; each token is a field.
static STRUCTS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let lines = LAYOUT.lines().map(str::split_whitespace);
    lines
        .filter_map(|mut words| Some((words.next()?, words.collect())))
        .collect()
});

/// An object on one line, as a struct of the layout.
pub(crate) fn structure(name: &str, object: &Value) -> String {
    let mut printer = Printer {
        compact: true,
        ..Printer::default()
    };
    printer.structure(name, object, 0);
    printer.out
}

/// A value of an API type in JSON, its fields in the order that Go has them.
pub(crate) fn json_of(type_name: &str, value: &Value) -> String {
    let schema = Schema::builtin();
    let Some(id) = schema.type_named(type_name) else {
        return go_json(value);
    };
    let mut out = String::new();
    write_in_order(schema, &Shape::Struct(id), value, &mut out);
    out
}

fn write_in_order(schema: &Schema, shape: &Shape, value: &Value, out: &mut String) {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(members)) => {
            let fields = schema.fields(*id).into_iter();
            let set = fields.filter_map(|field| Some((field, members.get(&*field.name)?)));
            out.push('{');
            for (index, (field, value)) in set.enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&go_json(&json!(&*field.name)));
                out.push(':');
                write_in_order(schema, &field.shape, value, out);
            }
            out.push('}');
        }
        (Shape::List(item), Value::Array(items)) => {
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_in_order(schema, item, value, out);
            }
            out.push(']');
        }
        (_, value) => out.push_str(&go_json(value)),
    }
}

/// The spec of a pod, line by line.
pub(crate) fn spec_lines(spec: &Value) -> Vec<String> {
    let mut printer = Printer::default();
    printer.structure("PodSpec", spec, 0);
    printer.out.lines().map(str::to_owned).collect()
}

/// A template for pods on one line, as the texts of faults quote it.
pub(crate) fn template(template: &Value) -> String {
    template_of(template, |printer, spec| {
        printer.structure("PodSpec", spec, 1)
    })
}

/// A template for claims of devices on one line.
pub(crate) fn claim_template(template: &Value) -> String {
    template_of(template, |printer, spec| {
        printer.structure("ResourceClaimSpec", spec, 1)
    })
}

fn template_of(template: &Value, print_spec: impl Fn(&mut Printer, &Value)) -> String {
    let mut printer = Printer {
        compact: true,
        ..Printer::default()
    };
    // Metadata has JSON names even in Go's own structs, and stands as if it were part of the template.
    let metadata = template["metadata"].as_object().into_iter().flatten();
    printer.out.push('{');
    for (name, value) in metadata {
        printer.key(name);
        printer.plain(value, 1);
        printer.out.push(',');
    }
    printer.key("Spec");
    print_spec(&mut printer, &template["spec"]);
    printer.out.push('}');
    printer.out
}

#[derive(Default)]
struct Printer {
    out: String,
    compact: bool,
}

impl Printer {
    fn structure(&mut self, name: &str, value: &Value, depth: usize) {
        self.out.push('{');
        let mut first = true;
        self.members(name, value, depth + 1, &mut first);
        self.new_line(depth);
        self.out.push('}');
    }

    fn members(&mut self, name: &str, value: &Value, depth: usize, first: &mut bool) {
        for token in STRUCTS.get(name).into_iter().flatten() {
            if let Some(inner) = token.strip_prefix('+') {
                self.members(inner, value, depth, first);
                continue;
            }
            if !std::mem::replace(first, false) {
                self.out.push(',');
            }
            self.new_line(depth);
            let end = token.find(['?', '#', '!', '%', '=', '*']).unwrap_or(token.len());
            let (field, mark) = token.split_at(end);
            self.key(field);
            self.member(mark, &value[json_name(field)], depth);
        }
    }

    fn member(&mut self, mark: &str, value: &Value, depth: usize) {
        let (mark, inner) = mark.split_at(usize::from(!mark.is_empty()));
        match (mark, value) {
            ("=", value) => self.structure(inner, value, depth),
            ("*" | "?", Value::Null) => self.out.push_str("null"),
            ("*", value) => {
                let items = value.as_array().into_iter().flatten();
                self.list(['[', ']'], items, depth, |printer, item| {
                    printer.structure(inner, item, depth + 1);
                });
            }
            ("?", value) if !inner.is_empty() => self.structure(inner, value, depth),
            ("#" | "%", Value::Null) => self.out.push('0'),
            ("!", Value::Null) => self.out.push_str("false"),
            ("", Value::Null) => self.out.push_str("\"\""),
            (_, value) => self.plain(value, depth),
        }
    }

    /// A value that is no struct of Go's.
    fn plain(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Array(items) if !items.is_empty() => {
                self.list(['[', ']'], items.iter(), depth, |printer, item| {
                    printer.plain(item, depth + 1);
                });
            }
            Value::Object(fields) if !fields.is_empty() => {
                self.list(['{', '}'], fields.iter(), depth, |printer, (name, value)| {
                    printer.key(name);
                    printer.plain(value, depth + 1);
                });
            }
            scalar => self.out.push_str(&go_json(scalar)),
        }
    }

    fn list<T>(
        &mut self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = T>,
        depth: usize,
        print: impl Fn(&mut Self, T),
    ) {
        self.out.push(open);
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.new_line(depth + 1);
            print(self, item);
        }
        self.new_line(depth);
        self.out.push(close);
    }

    fn key(&mut self, name: &str) {
        self.out.push_str(&go_json(&json!(name)));
        self.out.push_str(if self.compact { ":" } else { ": " });
    }

    fn new_line(&mut self, depth: usize) {
        if !self.compact {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', depth));
        }
    }
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

    /// Structs that are called as in the API have its fields, wherever Go puts them.
    #[test]
    fn the_layout_has_every_field() {
        let schema = Schema::builtin();
        for (name, tokens) in STRUCTS.iter() {
            let Some(known) = schema.type_named(&format!("core/v1.{name}")) else {
                continue;
            };
            let names: Vec<String> = tokens
                .iter()
                .map(|token| {
                    json_name(
                        token
                            .split(['?', '#', '!', '%', '=', '*'])
                            .next()
                            .unwrap_or_default(),
                    )
                })
                .collect();
            let embeds = tokens.iter().any(|token| token.starts_with('+'));
            for field in schema.fields(known) {
                assert!(
                    embeds || names.contains(&field.name.to_string()),
                    "{name} has no {}",
                    field.name
                );
            }
        }
    }

    #[test]
    fn every_struct_is_laid_out() {
        for token in STRUCTS.values().flatten() {
            let inner = match token.strip_prefix('+') {
                Some(name) => Some(name),
                None => token.split_once(['=', '*', '?']).map(|(_, inner)| inner),
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
