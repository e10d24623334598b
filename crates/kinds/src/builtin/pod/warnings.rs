//! Warnings about pods and pod templates.

mod overlaps;
mod ports;

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::quote;
use watchkeeper_meta::validation::{dns1123_label, label_value};
use watchkeeper_wire::values::Quantity;

use crate::Warnings;
use crate::rules::formats::warn_of_ip;
use crate::rules::place::Place;

/// The prefix of the deprecated AppArmor annotations.
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Deprecated node labels, and what to do instead.
const OLD_LABELS: &[(&str, &str)] = &[
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

/// Annotations without effect.
const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Volume sources that are no longer supported.
const OLD_VOLUMES: &[(&str, &str)] = &[
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const CONTAINER_SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Warns about a new pod. Updates have no warnings: few people write them, and there are many.
pub(crate) fn warn_pod(pod: &Value, live: Option<&Value>, warnings: &Warnings) {
    if live.is_none() {
        warn_name(pod, "the Pod's hostname", warnings);
        warn_spec(&Place::object(pod), Owner::Pod, warnings);
    }
}

/// Warns about the addresses in a pod's status.
pub(crate) fn warn_of_status(status: &Place<'_, '_>, warnings: &Warnings) {
    for list in ["podIPs", "hostIPs"] {
        let addresses = status.field(list);
        addresses
            .items()
            .for_each(|address| warn_of_ip(&address.field("ip"), warnings));
    }
}

/// Warns about a name that is not a DNS label; `used_in` says where it will be used as one.
pub(crate) fn warn_name(object: &Value, used_in: &str, warnings: &Warnings) {
    let reasons = dns1123_label(object["metadata"]["name"].as_str().unwrap_or_default());
    if !reasons.is_empty() {
        let reasons = reasons.join(" ");
        warnings.add(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{reasons}]"
        ));
    }
}

/// Warns about a template.
pub(crate) fn warn_template(template: &Place<'_, '_>, warnings: &Warnings) {
    warn_spec(template, Owner::Template, warnings);
}

/// The object that has the spec. AppArmor annotations of a pod were warned of when they became fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Pod,
    Template,
}

/// Warns about a pod or template, in Kubernetes' order.
fn warn_spec(pod: &Place<'_, '_>, owner: Owner, warnings: &Warnings) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    let annotations = metadata.field("annotations");
    warn_of_old_labels(&spec, warnings);
    for (name, why) in OLD_ANNOTATIONS {
        let entry = annotations.entry(name);
        if entry.is_set() {
            warnings.add(format!("{}: {why}", entry.path()));
        }
    }
    for volume in spec.field("volumes").items() {
        warn_of_old_source(&volume, &[], warnings);
        let template = volume.field("ephemeral");
        let template = template.field("volumeClaimTemplate");
        warn_of_fractions(
            &template.field("spec").field("resources").field("requests"),
            warnings,
        );
    }
    overlaps::warn(&spec.field("volumes"), warnings);
    warn_of_repeated(&spec.field("hostAliases"), "ip", warnings);
    warn_of_repeated(&spec.field("imagePullSecrets"), "name", warnings);
    for secret in spec.field("imagePullSecrets").items() {
        let name = secret.field("name");
        if name.text().is_empty() {
            warnings.add(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
    warn_of_fractions(&spec.field("overhead"), warnings);
    warn_of_seccomp(&annotations.entry(SECCOMP), &spec, warnings);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            let name = container.field("name").text();
            let mut entries = annotations.entries();
            if let Some((_, entry)) =
                entries.find(|(key, _)| key.strip_prefix(CONTAINER_SECCOMP) == Some(name))
            {
                warn_of_seccomp(&entry, &container, warnings);
            }
            let profiled = [&spec, &container]
                .into_iter()
                .any(|place| place.field("securityContext").field("appArmorProfile").is_set());
            if owner == Owner::Template && !profiled {
                let key = format!("{APP_ARMOR}{name}");
                warn_of_app_armor(&annotations.entry(&key), warnings);
            }
            for amounts in ["limits", "requests"] {
                warn_of_fractions(&container.field("resources").field(amounts), warnings);
            }
            warn_of_hidden_variables(&container.field("env"), warnings);
        }
    }
    ports::warn(&spec, warnings);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.number() < 0 {
        let path = grace.path();
        warnings.add(format!(
            "{path}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.field("affinity");
        let affinity = affinity.field(kind);
        for term in affinity.field(REQUIRED).items() {
            warn_of_no_selector(&term, warnings);
        }
        for term in affinity.field(PREFERRED).items() {
            warn_of_no_selector(&term.field("podAffinityTerm"), warnings);
        }
    }
    let servers = spec.field("dnsConfig");
    let servers = servers.field("nameservers");
    servers.items().for_each(|server| warn_of_ip(&server, warnings));
    for alias in spec.field("hostAliases").items() {
        warn_of_ip(&alias.field("ip"), warnings);
    }
}

/// Warns about a missing label selector, which matches no pod.
fn warn_of_no_selector(term: &Place<'_, '_>, warnings: &Warnings) {
    let selector = term.field("labelSelector");
    if !selector.is_set() {
        let path = selector.path();
        warnings.add(format!("{path}: a null labelSelector results in matching no pod"));
    }
}

/// The deprecation text of a node label.
pub(crate) fn deprecated_label(label: &str) -> Option<&'static str> {
    let (_, why) = OLD_LABELS.iter().find(|(old, _)| *old == label)?;
    Some(why)
}

fn warn_of_old_labels(spec: &Place<'_, '_>, warnings: &Warnings) {
    for (label, entry) in spec.field("nodeSelector").entries() {
        if let Some(why) = deprecated_label(label) {
            warnings.add(format!("{}: {why}", entry.path()));
        }
    }
    let affinity = spec.field("affinity");
    let affinity = affinity.field("nodeAffinity");
    for term in affinity.field(REQUIRED).field("nodeSelectorTerms").items() {
        warn_of_old_keys(&term, warnings);
    }
    for term in affinity.field(PREFERRED).items() {
        warn_of_preference(&term.field("preference"), warnings);
    }
    for constraint in spec.field("topologySpreadConstraints").items() {
        warn_of_old_key(&constraint.field("topologyKey"), warnings);
        warn_of_no_selector(&constraint, warnings);
    }
}

/// Warns about deprecated node labels in a node selector term.
pub(crate) fn warn_of_old_keys(term: &Place<'_, '_>, warnings: &Warnings) {
    for expression in term.field("matchExpressions").items() {
        warn_of_old_key(&expression.field("key"), warnings);
    }
}

/// Warns about a preferred term, whose values need not be valid.
fn warn_of_preference(term: &Place<'_, '_>, warnings: &Warnings) {
    for expression in term.field("matchExpressions").items() {
        warn_of_old_key(&expression.field("key"), warnings);
        for value in expression.field("values").items() {
            for why in label_value(value.text()) {
                warnings.add(format!("{}: {} is invalid, {why}", value.path(), value.text()));
            }
        }
    }
}

fn warn_of_old_key(key: &Place<'_, '_>, warnings: &Warnings) {
    if let Some(why) = deprecated_label(key.text()) {
        warnings.add(format!("{}: {} is {why}", key.path(), key.text()));
    }
}

/// Warns about a volume source that is no longer supported, unless it is one of `but_for`.
pub(crate) fn warn_of_old_source(volume: &Place<'_, '_>, but_for: &[&str], warnings: &Warnings) {
    let is_old = |name: &str| OLD_VOLUMES.iter().any(|(old, _)| *old == name) && !but_for.contains(&name);
    // Iterating over the fields that are set is quicker than looking up every deprecated one.
    if !volume.entries().any(|(name, _)| is_old(name)) {
        return;
    }
    for (name, why) in OLD_VOLUMES.iter().filter(|(name, _)| is_old(name)) {
        let source = volume.field(name);
        if source.is_set() {
            // Kubernetes writes this one otherwise than its field.
            let source = match *name {
                "storageos" => source.known_as("storageOS"),
                _ => source,
            };
            warnings.add(format!("{}: {why}", source.path()));
        }
    }
}

/// Warns about items with equal keys.
fn warn_of_repeated(list: &Place<'_, '_>, key: &str, warnings: &Warnings) {
    let mut seen = HashSet::new();
    for item in list.items() {
        let name = item.field(key);
        if !seen.insert(name.text()) {
            let (path, name) = (name.path(), quote(name.text()));
            warnings.add(format!("{path}: duplicate {key} {name}"));
        }
    }
}

/// Warns about a deprecated seccomp annotation, unless the field is set too.
fn warn_of_seccomp(annotation: &Place<'_, '_>, of: &Place<'_, '_>, warnings: &Warnings) {
    let has_field = of.field("securityContext").field("seccompProfile").is_set();
    if annotation.is_set() && !has_field {
        let path = annotation.path();
        warnings.add(format!(
            r#"{path}: non-functional in v1.27+; use the "seccompProfile" field instead"#
        ));
    }
}

/// Warns about a deprecated AppArmor annotation, if there is one.
pub(super) fn warn_of_app_armor(annotation: &Place<'_, '_>, warnings: &Warnings) {
    if annotation.is_set() {
        let path = annotation.path();
        warnings.add(format!(
            r#"{path}: deprecated since v1.30; use the "appArmorProfile" field instead"#
        ));
    }
}

/// Warns about fractional bytes.
pub(crate) fn warn_of_fractions(amounts: &Place<'_, '_>, warnings: &Warnings) {
    for name in ["memory", "ephemeral-storage", "storage"] {
        let amount = amounts.entry(name);
        if !amount.is_set() {
            continue;
        }
        let quantity = amount.text().parse::<Quantity>().ok();
        let milli = quantity.and_then(|quantity| quantity.to_milli());
        if milli.is_some_and(|milli| milli % 1000 != 0) {
            let (path, shown) = (amount.path(), quote(amount.text()));
            warnings.add(format!(
                "{path}: fractional byte value {shown} is invalid, must be an integer"
            ));
        }
    }
}

/// Warns about a variable that is defined twice, unless the second value refers to the first.
fn warn_of_hidden_variables(env: &Place<'_, '_>, warnings: &Warnings) {
    let mut names = HashSet::new();
    for variable in env.items() {
        let (name, value) = (variable.field("name").text(), variable.field("value").text());
        let extends = || {
            let reference = format!("$({name})");
            value.contains(&reference) && value != reference && !variable.field("valueFrom").is_set()
        };
        if !names.insert(name) && !extends() {
            let (path, name) = (variable.path(), quote(name));
            warnings.add(format!(
                "{path}: hides previous definition of {name}, which may be dropped when using apply"
            ));
        }
    }
}
