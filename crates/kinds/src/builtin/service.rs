//! Service: ports, cluster IPs and the fields of each service type.
//!
//! The registry allocates addresses and node ports after defaulting and before these checks.
//! [`type_rules`] has the rules of each type.

mod change_rules;
mod status_rules;
mod type_change;
mod type_rules;

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{NameRule, dns1123_label, labels, qualified_name};
use watchkeeper_meta::{BadValue, FieldError};

use crate::fields::Selectable;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::quota::{Usage, number};
use crate::rules::defaulting::{fill, fill_empty, items_mut};
use crate::rules::formats::{PROTOCOLS, check_not_local, warn_of_cidr, warn_of_ip};
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{NONE, joined, label_pairs, list_of, load_balancer, or, plain, text_at};
use crate::{Part, Warnings};

/// The default timeout of client IP affinity: three hours.
const STICKY_SECONDS: i64 = 10_800;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const OLD_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const HINTS: &str = "service.kubernetes.io/topology-mode";

/// The kind served as `services`.
pub static KIND: Kind = Kind {
    group: "",
    name: "Service",
    plural: "services",
    names: NameRule::Dns1123Label,
    storage_name: Some("services/specs"),
    creates_on_update: true,
    delete_returns_object: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    usage,
    counted_by_plural: true,
    grows_by: &[Part::Object],
    allocates_addresses: true,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Type", |row| json!(row.text("/spec/type"))),
    Column::text("Cluster-IP", |row| row.text_or_none("/spec/clusterIP")),
    Column::text("External-IP", |row| json!(external_ip(row.object))),
    Column::text("Port(s)", |row| json!(service_ports(row.object))),
    Column::AGE,
    Column::text("Selector", |row| json!(label_pairs(row.at("/spec/selector")))).wide(),
];

const SELECTABLE: &[Selectable] = &[
    Selectable::at("spec.clusterIP", &["/spec/clusterIP"]),
    Selectable::at("spec.type", &["/spec/type"]),
];

const HOOKS: Hooks = Hooks {
    default,
    prepare_for_update: |part, service, live, _| {
        if part == Part::Object {
            type_change::keep_allocated(service, live);
            type_change::release_unused(service, live);
        }
    },
    check,
    check_change: |change, errors| match change.part {
        Part::Status => status_rules::check(&change.new, errors),
        _ => change_rules::check(&change.new, &change.live, errors),
    },
    change_first: true,
    warn: |service, _, warnings| warn(service, warnings),
    warn_of_status,
    ..PLAIN
};

/// A string of an object; empty if unset.
fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn remove(service: &mut Value, name: &str) {
    if let Some(spec) = service["spec"].as_object_mut() {
        spec.remove(name);
    }
}

fn has_node_ports(service: &Value) -> bool {
    matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer")
}

/// True if the service is reachable from outside the cluster.
fn is_external(service: &Value) -> bool {
    let has_addresses = service["spec"]["externalIPs"]
        .as_array()
        .is_some_and(|addresses| !addresses.is_empty());
    has_node_ports(service) || (text(service, "/spec/type") == "ClusterIP" && has_addresses)
}

fn default(service: &mut Value) {
    if !service["spec"].is_object() {
        service["spec"] = json!({});
    }
    let spec = &mut service["spec"];
    fill_empty(spec, "sessionAffinity", "None");
    fill_empty(spec, "type", "ClusterIP");
    if spec["sessionAffinity"] == "None" {
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("sessionAffinityConfig");
        }
    } else if spec["sessionAffinity"] == "ClientIP"
        && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null()
    {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": STICKY_SECONDS}});
    }
    for port in items_mut(spec, "ports") {
        fill_empty(port, "protocol", "TCP");
        let is_unset = port["targetPort"].is_null() || port["targetPort"] == 0 || port["targetPort"] == "";
        if is_unset {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = text(service, "/spec/type").to_owned();
    let is_external = is_external(service);
    let spec = &mut service["spec"];
    if is_external {
        fill_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill_empty(spec, "allocateLoadBalancerNodePorts", true);
        default_points(service);
    }
}

/// Fills in `ipMode: VIP` for load balancer addresses.
fn default_points(service: &mut Value) {
    let Some(balancer) = service.pointer_mut("/status/loadBalancer") else {
        return;
    };
    for point in items_mut(balancer, "ingress") {
        if point["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
            fill(point, "ipMode", "VIP");
        }
    }
}

fn check(service: &Place<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let (kind, ports) = (spec.field("type"), spec.field("ports"));
    check_annotations(service, errors);
    if ports.len() == 0 && !is_headless(&spec) && kind.text() != "ExternalName" {
        errors.push(ports.required(""));
    }
    type_rules::check_type(&spec, errors);
    check_ports(&ports, errors);
    let selector = spec.field("selector");
    if selector.is_set() {
        errors.append(labels(selector.value(), &selector.path()));
    }
    spec.field("sessionAffinity")
        .must_be_one_of(&["ClientIP", "None"], errors);
    type_rules::check_affinity(&spec, errors);
    type_rules::check_addresses(&spec, errors);
    for address in spec.field("externalIPs").items() {
        if let Some(parsed) = address.must_be_ip(errors) {
            check_not_local(&address, parsed, errors);
        }
    }
    kind.must_be_one_of(TYPES, errors);
    check_node_ports(&spec, errors);
    check_collisions(&ports, errors);
    type_rules::check_load_balancer(service, errors);
    type_rules::check_policies(&spec, errors);
}

/// True if a service is headless: it has no cluster IP.
fn is_headless(spec: &Place<'_, '_>) -> bool {
    spec.field("clusterIP").text() == "None"
}

/// Checks that the old and the new name of the topology annotation have the same value.
fn check_annotations(service: &Place<'_, '_>, errors: &mut Errors) {
    let metadata = service.field("metadata");
    let annotations = metadata.field("annotations");
    let (old, new) = (annotations.entry(OLD_HINTS), annotations.entry(HINTS));
    if old.is_set() && new.is_set() && old.value() != new.value() {
        let why = format!("must match annotations[{OLD_HINTS}] when both are specified");
        errors.push(new.invalid(why));
    }
}

fn check_ports(ports: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for entry in ports.items() {
        let name = entry.field("name");
        match ports.len() > 1 {
            true => name.must_be_set_and_keep(dns1123_label, errors),
            false => name.may_keep(dns1123_label, errors),
        }
        if !name.text().is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        entry.field("port").must_be_port(errors);
        entry.field("protocol").must_be_one_of(PROTOCOLS, errors);
        entry.field("targetPort").must_be_port_or_name(errors);
        let protocol = entry.field("appProtocol");
        if protocol.is_set() {
            protocol.must_keep(qualified_name, errors);
        }
    }
}

/// Checks that no two ports have the same number and protocol.
fn check_collisions(ports: &Place<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for entry in ports.items() {
        let (port, protocol) = (entry.field("port"), entry.field("protocol"));
        if !seen.insert((port.number(), protocol.text())) {
            // The error shows only the two fields that collide.
            let both = json!({"port": port.value(), "protocol": protocol.value()});
            let shown = go_structs::structure("ServicePort", &both);
            errors.push(FieldError {
                value: BadValue::Printed(shown.into()),
                ..FieldError::duplicate(&entry.path(), Value::Null)
            });
        }
    }
}

fn check_node_ports(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (ports, is_inner) = (spec.field("ports"), spec.field("type").text() == "ClusterIP");
    let given = || ports.items().filter(|port| port.field("nodePort").number() != 0);
    if is_inner {
        let ports = given().map(|port| port.field("nodePort").path());
        let why = "may not be used when `type` is 'ClusterIP'";
        errors.extend(ports.map(|path| FieldError::forbidden(&path, why)));
    }
    let mut seen = HashSet::new();
    for port in given() {
        let number = port.field("nodePort");
        if !seen.insert((number.number(), port.field("protocol").text())) {
            errors.push(number.duplicate());
        }
    }
}

/// Warns about fields that are ignored or deprecated.
fn warn(service: &Value, warnings: &Warnings) {
    let place = Place::object(service);
    let (metadata, spec) = (place.field("metadata"), place.field("spec"));
    let (kind, address) = (spec.field("type").text(), spec.field("clusterIP").text());
    let is_headless = kind == "ClusterIP" && address == "None";
    let warn_if = |applies: bool, warning: &str| {
        if applies {
            warnings.add(warning);
        }
    };
    warn_if(
        metadata.field("annotations").entry(OLD_HINTS).is_set(),
        "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
         service.kubernetes.io/topology-mode instead",
    );
    if kind != "ExternalName" && !matches!(address, "" | "None") {
        let addresses = spec.field("clusterIPs");
        addresses.items().for_each(|ip| warn_of_ip(&ip, warnings));
    }
    let (balancer, externals) = (spec.field("loadBalancerIP"), spec.field("externalIPs"));
    let has_externals = externals.len() > 0;
    warn_if(
        is_headless && !balancer.text().is_empty(),
        "spec.loadBalancerIP is ignored for headless services",
    );
    warn_if(
        is_headless && has_externals,
        "spec.externalIPs is ignored for headless services",
    );
    warn_if(
        is_headless && spec.field("sessionAffinity").text() != "None",
        "spec.SessionAffinity is ignored for headless services",
    );
    warn_if(
        has_externals && !is_headless && kind != "ExternalName",
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    );
    externals.items().for_each(|ip| warn_of_ip(&ip, warnings));
    warn_of_ip(&balancer, warnings);
    let ranges = spec.field("loadBalancerSourceRanges");
    ranges.items().for_each(|range| warn_of_cidr(&range, warnings));
    warn_if(
        has_externals && kind == "ExternalName",
        "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
    );
    warn_if(
        kind != "ExternalName" && !spec.field("externalName").text().is_empty(),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    warn_if(
        spec.field("trafficDistribution").text() == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
}

/// Warns of addresses; the path is that of the load balancer's entry.
fn warn_of_status(status: &Place<'_, '_>, warnings: &Warnings) {
    for entry in status.field("loadBalancer").field("ingress").items() {
        let address = &entry.value()["ip"];
        warn_of_ip(&entry.with_value(address), warnings);
    }
}

fn external_ip(service: &Value) -> String {
    let external = joined(&service["spec"]["externalIPs"], ",");
    match text_at(service, "/spec/type").as_str() {
        "ExternalName" => text_at(service, "/spec/externalName"),
        "LoadBalancer" => {
            let mut all = load_balancer(service);
            all.extend((!external.is_empty()).then_some(external));
            or(all.join(","), "<pending>")
        }
        _ => or(external, NONE),
    }
}

fn service_ports(service: &Value) -> String {
    let ports = list_of(&service["spec"]["ports"], |port| {
        let (number, protocol) = (plain(&port["port"]), plain(&port["protocol"]));
        match port["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    or(ports.join(","), NONE)
}

/// The quota usage of a service, by its type.
fn usage(service: &Value, usage: &mut Usage) {
    let ports = service["spec"]["ports"].as_array().map_or(0, Vec::len);
    let (balancers, node_ports) = match service["spec"]["type"].as_str() {
        Some("NodePort") => (0, ports),
        Some("LoadBalancer") => {
            let given = |port: &&Value| port["nodePort"].as_i64().unwrap_or_default() != 0;
            let ports = service["spec"]["ports"].as_array().into_iter().flatten();
            (1, ports.filter(given).count())
        }
        _ => (0, 0),
    };
    usage.insert("services.loadbalancers".to_owned(), number(balancers));
    usage.insert("services.nodeports".to_owned(), number(node_ports));
}
