//! Validation of the fields that each service type requires or forbids. Errors come in Kubernetes' order.

use std::collections::HashSet;

use watchkeeper_meta::validation::{dns1123_subdomain, qualified_name};

use super::is_headless;
use crate::rules::formats::Cidr;
use crate::rules::place::{Errors, Place};

/// The error for fields that only load balancers have.
const BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
/// The deprecated way to set source ranges.
const RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// The longest timeout of client IP affinity: one day.
const MAX_STICKY_SECONDS: i64 = 86_400;
const POLICIES: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
const FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const FAMILIES: &[&str] = &["IPv4", "IPv6"];

/// Checks cluster IPs and external name against the type.
pub(crate) fn check_type(spec: &Place<'_, '_>, errors: &mut Errors) {
    let kind = spec.field("type").text();
    let addresses = spec.field("clusterIPs");
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.extend(addresses.items().next().map(|first| first.invalid(why)));
        }
        "ExternalName" => check_external_name(spec, errors),
        _ => {}
    }
}

fn check_external_name(spec: &Place<'_, '_>, errors: &mut Errors) {
    let addresses = spec.field("clusterIPs");
    let has_address = addresses.len() > 0 || !spec.field("clusterIP").text().is_empty();
    for (field, is_set) in [
        (addresses, has_address),
        (spec.field("ipFamilies"), spec.field("ipFamilies").len() > 0),
        (
            spec.field("ipFamilyPolicy"),
            spec.field("ipFamilyPolicy").is_set(),
        ),
    ] {
        if is_set {
            errors.push(field.forbidden("may not be set for ExternalName services"));
        }
    }
    let name = spec.field("externalName");
    let host = name.text().strip_suffix('.').unwrap_or(name.text());
    if host.is_empty() {
        errors.push(name.required(""));
        return;
    }
    let reasons = dns1123_subdomain(host).into_iter();
    errors.extend(reasons.map(|why| name.invalid_for(host, why)));
}

/// Checks the session affinity.
pub(crate) fn check_affinity(spec: &Place<'_, '_>, errors: &mut Errors) {
    let config = spec.field("sessionAffinityConfig");
    let client = config.field("clientIP");
    let seconds = client.field("timeoutSeconds");
    match spec.field("sessionAffinity").text() {
        "ClientIP" => {
            let needed = [config, client, seconds];
            if let Some(missing) = needed.iter().find(|place| !place.is_set()) {
                errors.push(missing.required("when session affinity type is ClientIP"));
            } else if !(1..=MAX_STICKY_SECONDS).contains(&seconds.number()) {
                let why = format!("must be greater than 0 and less than {MAX_STICKY_SECONDS}");
                errors.push(seconds.invalid(why));
            }
        }
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// Checks the load balancer fields.
pub(crate) fn check_load_balancer(service: &Place<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (service.field("metadata"), service.field("spec"));
    let is_balanced = spec.field("type").text() == "LoadBalancer";
    let annotations = metadata.field("annotations");
    let annotation = annotations.entry(RANGES_ANNOTATION);
    // Kubernetes' errors spell this one field with a capital.
    let ranges = spec
        .field("loadBalancerSourceRanges")
        .known_as("LoadBalancerSourceRanges");
    if ranges.len() > 0 {
        if !is_balanced {
            errors.push(ranges.forbidden(BALANCED));
        }
        for range in ranges.items() {
            check_range(range.text(), &range, errors);
        }
    } else if annotation.is_set() {
        if !is_balanced {
            errors.push(annotation.forbidden(BALANCED));
        }
        let ranges = annotation.text().trim();
        for range in ranges.split(',').filter(|_| !ranges.is_empty()) {
            check_range(range, &annotation, errors);
        }
    }
    let allocates = spec.field("allocateLoadBalancerNodePorts");
    if allocates.is_set() && !is_balanced {
        errors.push(allocates.forbidden(BALANCED));
    }
    let class = spec.field("loadBalancerClass");
    match (class.is_set(), is_balanced) {
        (true, true) => class.must_keep(qualified_name, errors),
        (true, false) => errors.push(class.forbidden(BALANCED)),
        _ => {}
    }
}

/// Checks a source range. Surrounding spaces are accepted.
fn check_range(range: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    let (_, why) = Cidr::parse(range.trim());
    errors.extend(why.map(|why| place.invalid_for(range.trim(), why)));
}

/// Checks the traffic policies.
pub(crate) fn check_policies(spec: &Place<'_, '_>, errors: &mut Errors) {
    let kind = spec.field("type").text();
    let policy = spec.field("externalTrafficPolicy");
    let reaches_out = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && spec.field("externalIPs").len() > 0);
    match reaches_out {
        true => policy.must_be_one_of(POLICIES, errors),
        false if !policy.text().is_empty() => {
            errors.push(policy.invalid("may only be set for externally-accessible services"));
        }
        false => {}
    }
    let health = spec.field("healthCheckNodePort");
    if kind == "LoadBalancer" && policy.text() == "Local" {
        match health.number() {
            0 => errors.push(health.required("")),
            _ => health.must_be_port(errors),
        }
    } else if health.number() != 0 {
        errors.push(
            health.invalid(
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            ),
        );
    }
    spec.field("internalTrafficPolicy")
        .may_be_one_of(POLICIES, errors);
    spec.field("trafficDistribution")
        .may_be_one_of(DISTRIBUTIONS, errors);
}

/// Checks cluster IPs and IP families.
pub(crate) fn check_addresses(spec: &Place<'_, '_>, errors: &mut Errors) {
    if spec.field("type").text() == "ExternalName" {
        return;
    }
    let (first, all) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    let given: Vec<&str> = all.texts().collect();
    match (first.text(), given.first()) {
        ("", Some(_)) => errors.push(all.invalid("must be empty when `clusterIP` is not specified")),
        ("", None) => {}
        (_, None) => errors.push(all.required("")),
        (first, Some(given)) if first != *given => {
            errors.push(all.invalid("first value must match `clusterIP`"));
        }
        _ => {}
    }
    check_families(spec, errors);
    let mut has_bad = false;
    for (index, address) in all.items().enumerate() {
        if index == 0 && address.text() == "None" {
            if given.len() > 1 {
                has_bad = true;
                errors.push(all.invalid("'None' must be the first and only value"));
            }
            continue;
        }
        has_bad |= address.must_be_ip(errors).is_none();
    }
    if given.len() > 2 {
        errors.push(all.invalid("may only hold up to 2 values"));
    }
    if !has_bad {
        check_family_of_each(spec, &given, errors);
    }
}

fn check_families(spec: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for family in spec.field("ipFamilies").items() {
        family.is_one_of(FAMILIES, errors);
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    spec.field("ipFamilyPolicy")
        .may_be_one_of(FAMILY_POLICIES, errors);
}

/// Checks that there is at most one address per family, in the order of `ipFamilies`.
fn check_family_of_each(spec: &Place<'_, '_>, given: &[&str], errors: &mut Errors) {
    let family = |address: &str| if address.contains(':') { "IPv6" } else { "IPv4" };
    let addresses = spec.field("clusterIPs");
    let families: HashSet<&str> = given.iter().map(|address| family(address)).collect();
    if given.len() > 1 && families.len() < 2 {
        errors.push(addresses.invalid("may specify no more than one IP for each IP family"));
    }
    if is_headless(spec) {
        return;
    }
    let wanted = spec.field("ipFamilies");
    for (index, (address, wanted)) in addresses.items().zip(wanted.texts()).enumerate() {
        if family(address.text()) != wanted && FAMILIES.contains(&wanted) {
            let why = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
            errors.push(address.invalid(why));
        }
    }
}
