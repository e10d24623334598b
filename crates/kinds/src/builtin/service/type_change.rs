//! Carries allocated addresses and ports over to an updated service, and releases those its new type does not have.
//!
//! A field that only the old type has is cleared with the type, unless the same update changes it; then validation
//! rejects it.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::{has_node_ports, is_external, remove, text};
use crate::rules::defaulting::items_mut;

/// Restores addresses and ports that the update leaves unset, as long as the type has them.
pub(crate) fn keep_allocated(service: &mut Value, live: &Value) {
    if has_address(service) && has_address(live) {
        keep_fields(
            service,
            live,
            &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"],
        );
    }
    if has_node_ports(service) && has_node_ports(live) {
        keep_node_ports(service, live);
    }
    if has_health_port(service) && has_health_port(live) {
        keep_fields(service, live, &["healthCheckNodePort"]);
    }
}

fn keep_fields(service: &mut Value, live: &Value, names: &[&str]) {
    for &name in names {
        if service["spec"].get(name).is_none() && live["spec"].get(name).is_some() {
            service["spec"][name] = live["spec"][name].clone();
        }
    }
}

/// Restores the node port of each port by the port's name, unless another port of the update has it.
fn keep_node_ports(service: &mut Value, live: &Value) {
    let mut used = &node_ports(service) & &node_ports(live);
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let old = live["spec"]["ports"].as_array().into_iter().flatten();
    let allocated: HashMap<String, i64> = old
        .filter_map(|port| Some((name(port), port["nodePort"].as_i64()?)))
        .collect();
    for port in items_mut(&mut service["spec"], "ports") {
        if port["nodePort"].as_i64().unwrap_or_default() == 0
            && let Some(&node_port) = allocated.get(&name(port))
            && used.insert(node_port)
        {
            port["nodePort"] = json!(node_port);
        }
    }
}

/// Clears unchanged fields that the new type does not have.
pub(crate) fn release_unused(service: &mut Value, live: &Value) {
    let loses = |has: fn(&Value) -> bool| has(live) && !has(service);
    let mut gone: Vec<&str> = Vec::new();
    if loses(has_address) {
        let is_same = ["clusterIP", "clusterIPs"]
            .iter()
            .all(|name| is_kept(service, live, name));
        if is_same {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        gone.extend(
            ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
                .iter()
                .filter(|name| is_kept(service, live, name)),
        );
    }
    for (has, name) in [
        (has_health_port as fn(&Value) -> bool, "healthCheckNodePort"),
        (is_balanced, "allocateLoadBalancerNodePorts"),
        (is_balanced, "loadBalancerClass"),
        (is_external, "externalTrafficPolicy"),
    ] {
        if loses(has) && is_kept(service, live, name) {
            gone.push(name);
        }
    }
    if loses(has_node_ports) && node_ports(live).is_superset(&node_ports(service)) {
        for port in items_mut(&mut service["spec"], "ports").filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    gone.into_iter().for_each(|name| remove(service, name));
    if !is_balanced(service) && service["status"].is_object() {
        service["status"]["loadBalancer"] = json!({});
    }
}

fn is_kept(service: &Value, live: &Value, name: &str) -> bool {
    service["spec"].get(name) == live["spec"].get(name)
}

fn has_address(service: &Value) -> bool {
    text(service, "/spec/type") != "ExternalName"
}

fn is_balanced(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer"
}

fn has_health_port(service: &Value) -> bool {
    is_balanced(service) && text(service, "/spec/externalTrafficPolicy") == "Local"
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| port["nodePort"].as_i64())
        .filter(|port| *port != 0)
        .collect()
}
