//! Validation of the spec of a pod or pod template. Errors come in Kubernetes' order.

use std::collections::HashSet;

use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, label_value, labels, qualified_name};

use super::{
    Around, container_rules, placement_rules, port_rules, resource_rules, security_rules, system_rules,
    volume_rules, windows_rules,
};
use crate::rules::formats::search_domain;
use crate::rules::place::{Errors, Place};

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const OPERATORS: &[&str] = &["Equal", "Exists"];
/// The limit of common resolvers.
const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
/// The longest search list, with a space between paths.
const MAX_SEARCH_CHARS: usize = 2048;

/// Checks a spec in its context.
pub(crate) fn check_spec<'v>(spec: &Place<'v, '_>, around: &Around<'v>, errors: &mut Errors) {
    let volumes = volume_rules::check_volumes(&spec.field("volumes"), around, errors);
    let claims = resource_rules::check_claims(&spec.field("resourceClaims"), errors);
    container_rules::check_containers(spec, &volumes, &claims, errors);
    resource_rules::check_pod_resources(spec, errors);
    if spec.field("hostNetwork").is_true() {
        port_rules::check_shared_ports(&spec.field("containers"), around, errors);
    }
    spec.field("restartPolicy")
        .must_be_one_of(RESTART_POLICIES, errors);
    spec.field("dnsPolicy").must_be_one_of(DNS_POLICIES, errors);
    let node_selector = spec.field("nodeSelector");
    if node_selector.is_set() {
        errors.append(labels(node_selector.value(), &node_selector.path()));
    }
    security_rules::check_pod(spec, errors);
    placement_rules::check_affinity(&spec.field("affinity"), errors);
    check_dns(spec, errors);
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").must_keep(qualified_name, errors);
    }
    check_scheduling_gates(&spec.field("schedulingGates"), errors);
    placement_rules::check_spread(&spec.field("topologySpreadConstraints"), errors);
    windows_rules::check_host_processes(spec, errors);
    security_rules::check_host_users(spec, errors);
    check_names(spec, errors);
    check_tolerations(&spec.field("tolerations"), errors);
    check_host_aliases(&spec.field("hostAliases"), errors);
    check_classes(spec, errors);
    // Kubernetes validates the overhead as container limits, and errors use that path.
    let overhead = spec.field("overhead");
    resource_rules::check_limits(&overhead.field("limits").with_value(overhead.value()), errors);
    system_rules::check_system(spec, errors);
}

/// Checks the DNS configuration. `dnsPolicy: None` requires a nameserver.
fn check_dns(spec: &Place<'_, '_>, errors: &mut Errors) {
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if spec.field("dnsPolicy").text() == "None" && servers.len() == 0 {
        errors.push(match config.is_set() {
            false => config.required("must provide `dnsConfig` when `dnsPolicy` is None"),
            true => servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"),
        });
        return;
    }
    if servers.len() > MAX_NAMESERVERS {
        errors.push(servers.invalid(format!("must not have more than {MAX_NAMESERVERS} nameservers")));
    }
    for server in servers.items() {
        server.must_be_ip(errors);
    }
    check_searches(&config.field("searches"), errors);
    for option in config.field("options").items() {
        if option.field("name").text().is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

fn check_searches(searches: &Place<'_, '_>, errors: &mut Errors) {
    if searches.len() > MAX_SEARCHES {
        errors.push(searches.invalid(format!("must not have more than {MAX_SEARCHES} search paths")));
    }
    let chars: usize = searches.texts().map(|search| search.len() + 1).sum();
    if chars > MAX_SEARCH_CHARS + 1 {
        let why = format!(
            "must not have more than {MAX_SEARCH_CHARS} characters (including spaces) in the search list"
        );
        errors.push(searches.invalid(why));
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let domain = search.text().strip_suffix('.').unwrap_or(search.text());
        let reasons = search_domain(domain).into_iter();
        errors.extend(reasons.map(|why| search.invalid_for(domain, why)));
    }
}

fn check_scheduling_gates(gates: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for gate in gates.items() {
        let name = gate.field("name").text();
        let reasons = qualified_name(name).into_iter();
        errors.extend(reasons.map(|why| gate.invalid_for(name, why)));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&gate.path(), name));
        }
    }
}

fn check_names(spec: &Place<'_, '_>, errors: &mut Errors) {
    for name in ["serviceAccountName", "nodeName"] {
        spec.field(name).may_keep(dns1123_subdomain, errors);
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() && !(1..=i64::from(i32::MAX)).contains(&deadline.number()) {
        errors.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    for name in ["hostname", "subdomain"] {
        spec.field(name).may_keep(dns1123_label, errors);
    }
}

/// Checks the tolerations.
pub(crate) fn check_tolerations(tolerations: &Place<'_, '_>, errors: &mut Errors) {
    for toleration in tolerations.items() {
        check_toleration(&toleration, errors);
    }
}

fn check_toleration(toleration: &Place<'_, '_>, errors: &mut Errors) {
    let (key, operator) = (toleration.field("key"), toleration.field("operator"));
    let (value, effect) = (toleration.field("value").text(), toleration.field("effect"));
    key.may_keep(qualified_name, errors);
    if key.text().is_empty() && operator.text() != "Exists" {
        let why =
            r#"operator must be Exists when `key` is empty, which means "match all values and all keys""#;
        errors.push(operator.invalid_for(operator.text(), why));
    }
    if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(effect.invalid_for(effect.text(), why));
    }
    match operator.text() {
        "" | "Equal" => {
            let reasons = label_value(value);
            if !reasons.is_empty() {
                errors.push(operator.invalid_for(value, reasons.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            errors.push(operator.invalid_for(value, "value must be empty when `operator` is 'Exists'"));
        }
        "Exists" => {}
        _ => errors.push(operator.unsupported(OPERATORS)),
    }
    if !effect.text().is_empty() {
        effect.is_one_of(EFFECTS, errors);
    }
}

fn check_host_aliases(aliases: &Place<'_, '_>, errors: &mut Errors) {
    for alias in aliases.items() {
        alias.field("ip").must_be_ip(errors);
        for host in alias.field("hostnames").items() {
            host.must_keep(dns1123_subdomain, errors);
        }
    }
}

fn check_classes(spec: &Place<'_, '_>, errors: &mut Errors) {
    spec.field("priorityClassName")
        .may_keep(dns1123_subdomain, errors);
    let runtime = spec.field("runtimeClassName");
    if runtime.is_set() {
        runtime.must_keep(dns1123_subdomain, errors);
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() {
        preemption.must_be_one_of(PREEMPTION_POLICIES, errors);
    }
}
