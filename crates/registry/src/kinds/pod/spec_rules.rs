//! What is wrong with the spec of a pod, or of a template for pods. Faults come in the order in which Kubernetes
//! finds them.
//!
//! Not checked: resource claims, overhead, sysctls and SELinux options, and what only Windows has.

use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, label_value, labels, qualified_name};

use super::super::check::parse_ip;
use super::super::place::{Faults, Place};
use super::{container_rules, placement_rules, port_rules, volume_rules};

const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
const DNS_POLICIES: &[&str] = &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// As many as a resolver asks.
const MAX_NAMESERVERS: usize = 3;
const OPERATING_SYSTEMS: &[&str] = &["linux", "windows"];
const OPERATORS: &[&str] = &["Equal", "Exists"];

/// What is wrong with a spec.
pub(in super::super) fn check_spec(spec: &Place<'_, '_>, faults: &mut Faults) {
    let volumes = volume_rules::check_volumes(&spec.field("volumes"), faults);
    container_rules::check_containers(spec, &volumes, faults);
    spec.field("restartPolicy")
        .must_be_one_of(RESTART_POLICIES, faults);
    spec.field("dnsPolicy").must_be_one_of(DNS_POLICIES, faults);
    let node_selector = spec.field("nodeSelector");
    faults.extend(labels(node_selector.value(), &node_selector.path()));
    if spec.field("hostNetwork").value() == true {
        port_rules::check_shared_ports(&spec.field("containers"), faults);
        port_rules::check_shared_ports(&spec.field("initContainers"), faults);
    }
    check_security_context(&spec.field("securityContext"), faults);
    placement_rules::check_affinity(&spec.field("affinity"), faults);
    check_dns(spec, faults);
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").must_keep(qualified_name, faults);
    }
    check_scheduling_gates(&spec.field("schedulingGates"), faults);
    placement_rules::check_spread(&spec.field("topologySpreadConstraints"), faults);
    check_names(spec, faults);
    check_tolerations(&spec.field("tolerations"), faults);
    check_host_aliases(&spec.field("hostAliases"), faults);
    check_classes(spec, faults);
    let system = spec.field("os");
    if system.is_set() && !OPERATING_SYSTEMS.contains(&system.field("name").text()) {
        let name = system.field("name").text();
        faults.push(FieldError::not_supported(&system.path(), name, OPERATING_SYSTEMS));
    }
}

fn check_security_context(context: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        container_rules::check_id(&context.field(name), faults);
    }
    for group in context.field("supplementalGroups").items() {
        container_rules::check_id(&group, faults);
    }
}

/// A pod that leaves nothing to the cluster's DNS must say whom to ask.
fn check_dns(spec: &Place<'_, '_>, faults: &mut Faults) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" && servers.len() == 0 {
        faults.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
    }
    if servers.len() > MAX_NAMESERVERS {
        faults.push(servers.invalid(format!("must not have more than {MAX_NAMESERVERS} nameservers")));
    }
    for server in servers.items() {
        check_ip(&server, faults);
    }
}

fn check_ip(ip: &Place<'_, '_>, faults: &mut Faults) {
    if let Err(why) = parse_ip(ip.text()) {
        faults.push(ip.invalid(why));
    }
}

fn check_scheduling_gates(gates: &Place<'_, '_>, faults: &mut Faults) {
    let mut names = Vec::new();
    for gate in gates.items() {
        let name = gate.field("name");
        name.must_keep(qualified_name, faults);
        if names.contains(&name.text()) {
            faults.push(name.duplicate());
        }
        names.push(name.text());
    }
}

fn check_names(spec: &Place<'_, '_>, faults: &mut Faults) {
    for (name, rule) in [
        ("serviceAccountName", dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", dns1123_subdomain),
    ] {
        check_name(&spec.field(name), rule, faults);
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() && !(1..=i64::from(i32::MAX)).contains(&deadline.number()) {
        faults.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    for name in ["hostname", "subdomain"] {
        check_name(&spec.field(name), dns1123_label, faults);
    }
}

/// A name that may be left out.
fn check_name(name: &Place<'_, '_>, rule: fn(&str) -> Vec<String>, faults: &mut Faults) {
    if !name.text().is_empty() {
        name.must_keep(rule, faults);
    }
}

fn check_tolerations(tolerations: &Place<'_, '_>, faults: &mut Faults) {
    for toleration in tolerations.items() {
        check_toleration(&toleration, faults);
    }
}

fn check_toleration(toleration: &Place<'_, '_>, faults: &mut Faults) {
    let (key, operator) = (toleration.field("key"), toleration.field("operator"));
    let (value, effect) = (toleration.field("value"), toleration.field("effect"));
    if !key.text().is_empty() {
        key.must_keep(qualified_name, faults);
    } else if operator.text() != "Exists" {
        let why =
            r#"operator must be Exists when `key` is empty, which means "match all values and all keys""#;
        faults.push(operator.invalid(why));
    }
    if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        faults.push(effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set"));
    }
    match operator.text() {
        "" | "Equal" => {
            let reasons = label_value(value.text());
            if !reasons.is_empty() {
                faults.push(operator.invalid(reasons.join(";")));
            }
        }
        "Exists" if !value.text().is_empty() => {
            faults.push(operator.invalid("value must be empty when `operator` is 'Exists'"));
        }
        "Exists" => {}
        _ => faults.push(operator.unsupported(OPERATORS)),
    }
    if !effect.text().is_empty() && !EFFECTS.contains(&effect.text()) {
        faults.push(effect.unsupported(EFFECTS));
    }
}

fn check_host_aliases(aliases: &Place<'_, '_>, faults: &mut Faults) {
    for alias in aliases.items() {
        check_ip(&alias.field("ip"), faults);
        for host in alias.field("hostnames").items() {
            host.must_keep(dns1123_subdomain, faults);
        }
    }
}

fn check_classes(spec: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["priorityClassName", "runtimeClassName"] {
        check_name(&spec.field(name), dns1123_subdomain, faults);
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        preemption.must_be_one_of(PREEMPTION_POLICIES, faults);
    }
}
