//! Services: ports, addresses and what each type of service may have.
//!
//! Addresses and node ports are given out by [`allocate`](crate::allocate), after defaulting and before these checks.
//! What a type may and must have is in [`type_rules`].

mod type_rules;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_label, labels, qualified_name};
use watchkeeper_meta::{BadValue, FieldError, FieldPath};

use super::check::{ip, items, not_local, one_of, port, port_or_name, set_default, text};
use super::defaulting::items_mut;
use super::formats::each;
use super::{Hooks, PLAIN};
use crate::update::Part;
use crate::write::Warnings;

/// Three hours: how long a client sticks to a backend, if it does.
const STICKY_SECONDS: i64 = 10_800;

pub(super) const HOOKS: Hooks = Hooks {
    default,
    prepare_for_update: |_, service, live, _| {
        // Addresses stay with a service that does not say otherwise, as long as its type has them.
        if text(service, "/spec/type") == "ExternalName" {
            for name in [
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "internalTrafficPolicy",
            ] {
                remove(service, name);
            }
            return;
        }
        for name in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "healthCheckNodePort",
        ] {
            if service["spec"].get(name).is_none() && live["spec"].get(name).is_some() {
                service["spec"][name] = live["spec"][name].clone();
            }
        }
        keep_node_ports(service, live);
    },
    faults,
    update_faults: |part, service, live| match part {
        Part::Status => Vec::new(),
        _ => update_faults(service, live),
    },
    warn: |service, _, warnings| warn(service, warnings),
    ..PLAIN
};

fn remove(service: &mut Value, name: &str) {
    if let Some(spec) = service["spec"].as_object_mut() {
        spec.remove(name);
    }
}

fn has_node_ports(service: &Value) -> bool {
    matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer")
}

fn default(service: &mut Value) {
    if !service["spec"].is_object() {
        service["spec"] = json!({});
    }
    let spec = &mut service["spec"];
    set_default(spec, "sessionAffinity", "None");
    set_default(spec, "type", "ClusterIP");
    if spec["sessionAffinity"] == "None" {
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("sessionAffinityConfig");
        }
    } else if spec["sessionAffinity"] == "ClientIP" && spec["sessionAffinityConfig"]["clientIP"].is_null() {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": STICKY_SECONDS}});
    }
    for port in items_mut(spec, "ports") {
        set_default(port, "protocol", "TCP");
        let is_unset = port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "";
        if is_unset {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = text(service, "/spec/type").to_owned();
    let reaches_out = !service["spec"]["externalIPs"]
        .as_array()
        .is_none_or(Vec::is_empty);
    let spec = &mut service["spec"];
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && reaches_out) {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// A node port stays with its port.
fn keep_node_ports(service: &mut Value, live: &Value) {
    if !has_node_ports(service) || !has_node_ports(live) {
        return;
    }
    let old: Vec<Value> = items(live, "/spec/ports").cloned().collect();
    for port in items_mut(&mut service["spec"], "ports") {
        let same = old
            .iter()
            .find(|old| old["port"] == port["port"] && old["protocol"] == port["protocol"]);
        if let (true, Some(node_port)) = (port["nodePort"].is_null(), same.map(|old| &old["nodePort"])) {
            port["nodePort"] = node_port.clone();
        }
    }
}

fn faults(service: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let kind = text(service, "/spec/type");
    let is_headless = text(service, "/spec/clusterIP") == "None";
    let mut faults = Vec::new();
    if items(service, "/spec/ports").next().is_none() && !is_headless && kind != "ExternalName" {
        faults.push(FieldError::required(&spec.child("ports"), ""));
    }
    type_rules::type_faults(service, &spec, &mut faults);
    port_faults(service, &spec.child("ports"), &mut faults);
    if let Some(selector) = service.pointer("/spec/selector") {
        faults.extend(labels(selector, &spec.child("selector")));
    }
    let affinity = text(service, "/spec/sessionAffinity");
    one_of(
        &mut faults,
        &spec.child("sessionAffinity"),
        affinity,
        &["ClientIP", "None"],
    );
    type_rules::affinity_faults(service, &spec, &mut faults);
    for (index, address) in items(service, "/spec/externalIPs").enumerate() {
        let path = spec.child("externalIPs").index(index);
        if let Some(address) = ip(&mut faults, &path, address.as_str().unwrap_or_default()) {
            not_local(&mut faults, &path, address);
        }
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&mut faults, &spec.child("type"), kind, &types);
    node_port_faults(service, &spec.child("ports"), &mut faults);
    collision_faults(service, &spec.child("ports"), &mut faults);
    type_rules::load_balancer_faults(service, &spec, &mut faults);
    type_rules::policy_faults(service, &spec, &mut faults);
    type_rules::address_faults(service, &spec, &mut faults);
    faults
}

fn port_faults(service: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let ports: Vec<&Value> = items(service, "/spec/ports").collect();
    let mut names: Vec<&str> = Vec::new();
    for (index, entry) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(entry, "/name");
        if name.is_empty() {
            if ports.len() > 1 {
                faults.push(FieldError::required(&path.child("name"), ""));
            }
        } else {
            let problems = dns1123_label(name).into_iter();
            faults.extend(problems.map(|why| FieldError::invalid(&path.child("name"), name, why)));
            if names.contains(&name) {
                faults.push(FieldError::duplicate(&path.child("name"), name));
            }
            names.push(name);
        }
        port(
            faults,
            &path.child("port"),
            entry["port"].as_i64().unwrap_or_default(),
        );
        let protocol = text(entry, "/protocol");
        one_of(faults, &path.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
        port_or_name(faults, &path.child("targetPort"), &entry["targetPort"]);
        if let Some(protocol) = entry.get("appProtocol").and_then(Value::as_str) {
            each(
                faults,
                &path.child("appProtocol"),
                protocol,
                qualified_name(protocol),
            );
        }
    }
}

/// No two ports are the same.
fn collision_faults(service: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let ports: Vec<&Value> = items(service, "/spec/ports").collect();
    for (index, entry) in ports.iter().enumerate() {
        let key = |port: &Value| (port["port"].clone(), port["protocol"].clone());
        if ports[..index].iter().any(|earlier| key(earlier) == key(entry)) {
            // Kubernetes shows the two fields that collide in a struct of its own.
            let shown = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                entry["protocol"], entry["port"]
            );
            let value = BadValue::Printed(shown);
            faults.push(FieldError {
                value,
                ..FieldError::duplicate(&path.index(index), Value::Null)
            });
        }
    }
}

fn node_port_faults(service: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let kind = text(service, "/spec/type");
    if kind != "ClusterIP" {
        return;
    }
    for (index, entry) in items(service, "/spec/ports").enumerate() {
        if entry["nodePort"].as_i64().unwrap_or_default() != 0 {
            let why = "may not be used when `type` is 'ClusterIP'";
            faults.push(FieldError::forbidden(&path.index(index).child("nodePort"), why));
        }
    }
}

/// What is there, and means nothing or not for long.
fn warn(service: &Value, warnings: &Warnings) {
    let has = |name: &str| service["spec"].get(name).is_some_and(is_meant);
    let kind = text(service, "/spec/type");
    let is_headless = kind == "ClusterIP" && text(service, "/spec/clusterIP") == "None";
    let hints = "service.kubernetes.io/topology-aware-hints";
    let rules = [
        (
            service["metadata"]["annotations"].get(hints).is_some(),
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
        ),
        (
            is_headless && has("loadBalancerIP"),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (
            is_headless && has("externalIPs"),
            "spec.externalIPs is ignored for headless services",
        ),
        (
            is_headless && text(service, "/spec/sessionAffinity") != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            has("externalIPs") && !is_headless && kind != "ExternalName",
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (
            has("externalIPs") && kind == "ExternalName",
            "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
        ),
        (
            has("externalName") && kind != "ExternalName",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (
            text(service, "/spec/trafficDistribution") == "PreferClose",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ),
    ];
    for (_, warning) in rules.iter().filter(|(applies, _)| *applies) {
        warnings.add(*warning);
    }
}

fn is_meant(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        value => !value.is_null(),
    }
}

fn update_faults(service: &Value, live: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let keeps = |object: &Value| {
        matches!(
            text(object, "/spec/type"),
            "ClusterIP" | "NodePort" | "LoadBalancer"
        )
    };
    if keeps(service) && keeps(live) && !text(live, "/spec/clusterIP").is_empty() {
        let path = spec.child("clusterIPs").index(0);
        let first = |object: &Value| object["spec"]["clusterIPs"][0].clone();
        if first(service) != first(live) {
            let shown = &service["spec"]["clusterIPs"];
            let why = "may not change once set";
            faults.push(FieldError::invalid(&path, shown.clone(), why));
        }
    }
    let class = |object: &Value| object["spec"]["loadBalancerClass"].clone();
    let is_balanced = |object: &Value| text(object, "/spec/type") == "LoadBalancer";
    if is_balanced(live) && is_balanced(service) && class(service) != class(live) {
        let path = spec.child("loadBalancerClass");
        faults.push(FieldError::invalid(
            &path,
            class(service),
            "may not change once set",
        ));
    }
    faults
}
