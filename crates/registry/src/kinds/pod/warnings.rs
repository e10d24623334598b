//! What the author of a pod, or of a template for pods, should hear although nothing is wrong.

use serde_json::Value;
use watchkeeper_meta::quote;
use watchkeeper_meta::validation::dns1123_label;
use watchkeeper_wire::values::Quantity;

use super::super::place::Place;
use crate::write::Warnings;

/// Where AppArmor profiles were before they were fields.
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Labels of nodes that have other names now.
const OLD_LABELS: &[(&str, &str, &str)] = &[
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "v1.17",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "v1.17",
        "topology.kubernetes.io/zone",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "v1.17",
        "node.kubernetes.io/instance-type",
    ),
];

/// Warns of what is in a pod; of its name only when it is new.
pub(super) fn warn_pod(pod: &Value, live: Option<&Value>, warnings: &Warnings) {
    if live.is_some_and(|live| live["spec"] == pod["spec"]) {
        return;
    }
    if live.is_none() {
        warn_name(pod, "the Pod's hostname", warnings);
    }
    warn_template(&Place::object(pod), warnings);
}

/// Warns of a name that is no label of a DNS name; `used_in` says where it will be one.
pub(in super::super) fn warn_name(object: &Value, used_in: &str, warnings: &Warnings) {
    let reasons = dns1123_label(object["metadata"]["name"].as_str().unwrap_or_default());
    if !reasons.is_empty() {
        let reasons = reasons.join(" ");
        warnings.add(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{reasons}]"
        ));
    }
}

/// Warns of what is in a pod or a template.
pub(in super::super) fn warn_template(pod: &Place<'_, '_>, warnings: &Warnings) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    warn_of_old_labels(&spec.field("nodeSelector"), warnings);
    warn_of_app_armor(&metadata.field("annotations"), warnings);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.number() < 0 {
        let path = grace.path();
        warnings.add(format!(
            "{path}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            warn_of_amounts(&container.field("resources"), warnings);
            warn_of_hidden_variables(&container.field("env"), warnings);
        }
    }
    warn_of_same_ports(&spec.field("containers"), warnings);
}

fn warn_of_old_labels(selector: &Place<'_, '_>, warnings: &Warnings) {
    for (label, entry) in selector.entries() {
        if let Some((_, since, now)) = OLD_LABELS.iter().find(|(old, ..)| *old == label) {
            let path = entry.path();
            warnings.add(format!(
                "{path}: deprecated since {since}; use {} instead",
                quote(now)
            ));
        }
    }
}

fn warn_of_app_armor(annotations: &Place<'_, '_>, warnings: &Warnings) {
    for (name, entry) in annotations.entries() {
        if name.starts_with(APP_ARMOR) {
            let path = entry.path();
            warnings.add(format!(
                r#"{path}: deprecated since v1.30; use the "appArmorProfile" field instead"#
            ));
        }
    }
}

/// Bytes come whole.
fn warn_of_amounts(resources: &Place<'_, '_>, warnings: &Warnings) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources.field(list).entries() {
            let is_bytes = matches!(name, "memory" | "ephemeral-storage");
            let quantity = amount.text().parse::<Quantity>().ok();
            let milli = quantity.and_then(|quantity| quantity.to_milli());
            if is_bytes && milli.is_some_and(|milli| milli % 1000 != 0) {
                let (path, shown) = (amount.path(), quote(amount.text()));
                warnings.add(format!(
                    "{path}: fractional byte value {shown} is invalid, must be an integer"
                ));
            }
        }
    }
}

fn warn_of_hidden_variables(env: &Place<'_, '_>, warnings: &Warnings) {
    let mut names = Vec::new();
    for variable in env.items() {
        let name = variable.field("name").text();
        if names.contains(&name) {
            let (path, name) = (variable.path(), quote(name));
            warnings.add(format!(
                "{path}: hides previous definition of {name}, which may be dropped when using apply"
            ));
        }
        names.push(name);
    }
}

fn warn_of_same_ports(containers: &Place<'_, '_>, warnings: &Warnings) {
    let mut seen: Vec<(Value, String)> = Vec::new();
    for container in containers.items() {
        for port in container.field("ports").items() {
            let mut what = port.value().clone();
            what.as_object_mut().map(|fields| fields.remove("name"));
            let path = port.path().to_string();
            match seen.iter().find(|(before, _)| *before == what) {
                Some((_, first)) => {
                    warnings.add(format!("{path}: duplicate port definition with {first}"));
                }
                None => seen.push((what, path)),
            }
        }
    }
}
