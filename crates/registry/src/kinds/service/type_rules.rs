//! What each type of service may and must have: addresses of its own, a name elsewhere, a load balancer in front.
//! Faults come in the order in which Kubernetes finds them.

use serde_json::Value;
use watchkeeper_meta::validation::{dns1123_subdomain, qualified_name};
use watchkeeper_meta::{FieldError, FieldPath};

use super::super::check::{ip, items, one_of, port, required, text};
use super::super::formats::{cidr, each};

/// What only a load balancer has.
const BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
/// A day: how long a client may stick to a backend.
const MAX_STICKY_SECONDS: i64 = 86_400;
/// Nodes listen there themselves.
const KUBELET_PORT: i64 = 10_250;
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];

fn is_set(service: &Value, name: &str) -> bool {
    service["spec"].get(name).is_some_and(|value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        value => !value.is_null(),
    })
}

/// What the type says of addresses, names and ports.
pub(super) fn type_faults(service: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    let kind = text(service, "/spec/type");
    let is_headless = text(service, "/spec/clusterIP") == "None";
    if kind == "LoadBalancer" {
        for (index, entry) in items(service, "/spec/ports").enumerate() {
            if entry["port"] == KUBELET_PORT {
                let why = "may not expose port 10250 externally since it is used by kubelet";
                faults.push(FieldError::invalid(
                    &spec.child("ports").index(index),
                    KUBELET_PORT,
                    why,
                ));
            }
        }
    }
    if is_headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let why = format!("may not be set to 'None' for {kind} services");
        faults.push(FieldError::invalid(
            &spec.child("clusterIPs").index(0),
            "None",
            why,
        ));
    }
    if kind == "ExternalName" {
        let addressed = is_set(service, "clusterIP") || is_set(service, "clusterIPs");
        for (name, set) in [
            ("clusterIPs", addressed),
            ("ipFamilies", is_set(service, "ipFamilies")),
            ("ipFamilyPolicy", is_set(service, "ipFamilyPolicy")),
        ] {
            if set {
                let why = "may not be set for ExternalName services";
                faults.push(FieldError::forbidden(&spec.child(name), why));
            }
        }
        external_name_faults(service, spec, faults);
    }
}

fn external_name_faults(service: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    let path = spec.child("externalName");
    let name = text(service, "/spec/externalName");
    required(faults, &path, name);
    if !name.is_empty() {
        each(faults, &path, name, dns1123_subdomain(name.trim_end_matches('.')));
    }
}

/// How long clients stick to a backend.
pub(super) fn affinity_faults(service: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    let seconds = &service["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if let Some(seconds) = seconds.as_i64()
        && !(1..=MAX_STICKY_SECONDS).contains(&seconds)
    {
        let path = spec
            .child("sessionAffinityConfig")
            .child("clientIP")
            .child("timeoutSeconds");
        let why = format!("must be greater than 0 and less than {MAX_STICKY_SECONDS}");
        faults.push(FieldError::invalid(&path, seconds, why));
    }
}

/// What only a load balancer has.
pub(super) fn load_balancer_faults(service: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    let is_balanced = text(service, "/spec/type") == "LoadBalancer";
    if is_set(service, "loadBalancerSourceRanges") {
        // The one field that Kubernetes' texts write with a capital.
        let path = spec.child("LoadBalancerSourceRanges");
        if !is_balanced {
            faults.push(FieldError::forbidden(&path, BALANCED));
        }
        for (index, range) in items(service, "/spec/loadBalancerSourceRanges").enumerate() {
            cidr(
                faults,
                &path.index(index),
                range.as_str().unwrap_or_default().trim(),
            );
        }
    }
    for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if is_set(service, name) && !is_balanced {
            faults.push(FieldError::forbidden(&spec.child(name), BALANCED));
        }
    }
    let class = text(service, "/spec/loadBalancerClass");
    if is_balanced && is_set(service, "loadBalancerClass") {
        each(
            faults,
            &spec.child("loadBalancerClass"),
            class,
            qualified_name(class),
        );
    }
}

/// Where traffic goes.
pub(super) fn policy_faults(service: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    const POLICIES: &[&str] = &["Cluster", "Local"];
    let kind = text(service, "/spec/type");
    let policy = text(service, "/spec/externalTrafficPolicy");
    let reaches_out = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && is_set(service, "externalIPs"));
    let path = spec.child("externalTrafficPolicy");
    if reaches_out {
        one_of(faults, &path, policy, POLICIES);
    } else if !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        faults.push(FieldError::invalid(&path, policy, why));
    }
    let health = service["spec"]["healthCheckNodePort"]
        .as_i64()
        .unwrap_or_default();
    let path = spec.child("healthCheckNodePort");
    if kind == "LoadBalancer" && policy == "Local" {
        port(faults, &path, health);
    } else if health != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        faults.push(FieldError::invalid(&path, health, why));
    }
    let internal = text(service, "/spec/internalTrafficPolicy");
    if !internal.is_empty() {
        one_of(faults, &spec.child("internalTrafficPolicy"), internal, POLICIES);
    }
    if let Some(distribution) = service["spec"].get("trafficDistribution").and_then(Value::as_str) {
        one_of(
            faults,
            &spec.child("trafficDistribution"),
            distribution,
            DISTRIBUTIONS,
        );
    }
}

/// The service's own addresses and their families.
pub(super) fn address_faults(service: &Value, spec: &FieldPath, faults: &mut Vec<FieldError>) {
    if text(service, "/spec/type") == "ExternalName" {
        return;
    }
    let (first, all) = (text(service, "/spec/clusterIP"), &service["spec"]["clusterIPs"]);
    let path = spec.child("clusterIPs");
    if !first.is_empty() && all[0].as_str().is_some_and(|address| address != first) {
        faults.push(FieldError::invalid(
            &path,
            all.clone(),
            "first value must match `clusterIP`",
        ));
    }
    let families: Vec<&str> = items(service, "/spec/ipFamilies")
        .filter_map(Value::as_str)
        .collect();
    for (index, family) in families.iter().enumerate() {
        let path = spec.child("ipFamilies").index(index);
        one_of(faults, &path, family, &["IPv4", "IPv6"]);
        if families[..index].contains(family) {
            faults.push(FieldError::duplicate(&path, *family));
        }
    }
    let policy = text(service, "/spec/ipFamilyPolicy");
    if !policy.is_empty() {
        let allowed = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        one_of(faults, &spec.child("ipFamilyPolicy"), policy, &allowed);
    }
    let count = items(service, "/spec/clusterIPs").count();
    let before = faults.len();
    for (index, address) in items(service, "/spec/clusterIPs").enumerate() {
        let address = address.as_str().unwrap_or_default();
        match address {
            "None" if index == 0 && count == 1 => {}
            "None" if index == 0 => {
                let why = "'None' must be the first and only value";
                faults.push(FieldError::invalid(&path, all.clone(), why));
            }
            address => drop(ip(faults, &path.index(index), address)),
        }
    }
    if count > 2 {
        faults.push(FieldError::invalid(
            &path,
            all.clone(),
            "may only hold up to 2 values",
        ));
    }
    if faults.len() == before && first != "None" {
        family_faults(service, &families, &path, faults);
    }
}

/// One address of each family, where the families say.
fn family_faults(service: &Value, families: &[&str], path: &FieldPath, faults: &mut Vec<FieldError>) {
    let addresses: Vec<&str> = items(service, "/spec/clusterIPs")
        .filter_map(Value::as_str)
        .collect();
    let family = |address: &str| if address.contains(':') { "IPv6" } else { "IPv4" };
    if let [one, other] = addresses.as_slice()
        && family(one) == family(other)
    {
        let why = "may specify no more than one IP for each IP family";
        faults.push(FieldError::invalid(
            path,
            service["spec"]["clusterIPs"].clone(),
            why,
        ));
    }
    for (index, (address, wanted)) in addresses.iter().zip(families).enumerate() {
        if family(address) != *wanted && matches!(*wanted, "IPv4" | "IPv6") {
            let why = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
            faults.push(FieldError::invalid(&path.index(index), *address, why));
        }
    }
}
