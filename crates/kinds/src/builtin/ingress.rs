//! Ingress: routes HTTP from outside the cluster to services.

use std::net::IpAddr;

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, path_segment_name};
use watchkeeper_meta::{FieldError, FieldPath};

use crate::Part;
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::formats::{port_name, wildcard_domain};
use crate::rules::place::{Errors, Place};
use crate::table::cells::{MOST_SHOWN, list_of, load_balancer, or, text_at, with_more};
use crate::table::{Column, Row};

/// The deprecated way to name the class.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];

/// The kind served as `ingresses`.
pub static KIND: Kind = Kind {
    group: "networking.k8s.io",
    name: "Ingress",
    plural: "ingresses",
    storage_name: Some("ingress"),
    generation: Generation::Spec,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Class", |row| row.text_or_none("/spec/ingressClassName")),
    Column::text("Hosts", |row| json!(ingress_hosts(row.object))),
    Column::text("Address", |row| json!(load_balancer(row.object).join(","))),
    Column::text("Ports", |row| json!(ingress_ports(row))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    check: |ingress, errors| check(&ingress.field("spec"), errors),
    check_new: check_class_annotation,
    check_change: |change, errors| {
        if change.part == Part::Status {
            let status = change.new.field("status");
            let balancer = status.field("loadBalancer");
            for point in balancer.field("ingress").items() {
                check_point(&point, errors);
            }
        }
    },
    warn: |ingress, live, warnings| {
        let class = |object: &Value| object["metadata"]["annotations"].get(CLASS_ANNOTATION).cloned();
        if class(ingress).is_some() && live.and_then(class) != class(ingress) {
            warnings.add(format!(
                "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
            ));
        }
    },
    ..PLAIN
};

/// Checks that the deprecated annotation agrees with `ingressClassName`.
fn check_class_annotation(ingress: &Place<'_, '_>, errors: &mut Errors) {
    let annotation = ingress.value()["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class = ingress.value()["spec"]["ingressClassName"].as_str();
    if let (Some(annotation), Some(class)) = (annotation, class)
        && annotation != class
    {
        // The path of the error lacks `metadata`, as in Kubernetes.
        let path = FieldPath::new("annotations").child(CLASS_ANNOTATION);
        let why = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(&path, annotation, why));
    }
}

fn check(spec: &Place<'_, '_>, errors: &mut Errors) {
    let (backend, rules) = (spec.field("defaultBackend"), spec.field("rules"));
    if rules.len() == 0 && !backend.is_set() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_for(Value::Null, why));
    }
    if backend.is_set() {
        check_backend(&backend, errors);
    }
    for rule in rules.items() {
        check_rule(&rule, errors);
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            check_host(&host, errors);
        }
        tls.field("secretName").may_keep(dns1123_subdomain, errors);
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        class.must_keep(dns1123_subdomain, errors);
    }
}

fn check_rule(rule: &Place<'_, '_>, errors: &mut Errors) {
    let host = rule.field("host");
    if !host.text().is_empty() {
        check_not_ip(&host, errors);
        check_host(&host, errors);
    }
    let http = rule.field("http");
    if !http.is_set() {
        return;
    }
    let paths = http.field("paths");
    if paths.len() == 0 {
        errors.push(paths.required(""));
    }
    paths.items().for_each(|path| check_path(&path, errors));
}

fn check_not_ip(host: &Place<'_, '_>, errors: &mut Errors) {
    if host.text().parse::<IpAddr>().is_ok() {
        errors.push(host.invalid("must be a DNS name, not an IP address"));
    }
}

/// Checks a host name, which may start with a wildcard.
fn check_host(host: &Place<'_, '_>, errors: &mut Errors) {
    match host.text().contains('*') {
        true => host.must_keep(wildcard_domain, errors),
        false => host.must_keep(dns1123_subdomain, errors),
    }
}

fn check_path(entry: &Place<'_, '_>, errors: &mut Errors) {
    let (kind, path) = (entry.field("pathType"), entry.field("path"));
    let mut refuse = |why: String| errors.push(path.invalid_for(path.text(), why));
    match kind.text() {
        "Exact" | "Prefix" => {
            if !path.text().starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(part) {
                    refuse(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.text().ends_with(end) {
                    refuse(format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.text().is_empty() && !path.text().starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
        }
        _ if !kind.is_set() => {
            errors.push(kind.required("pathType must be specified"));
            return;
        }
        _ => errors.push(kind.unsupported(PATH_TYPES)),
    }
    check_backend(&entry.field("backend"), errors);
}

fn check_backend(backend: &Place<'_, '_>, errors: &mut Errors) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => {
            errors.push(backend.invalid_for("", "cannot set both resource and service backends"));
        }
        (true, false) => check_reference(&resource, errors),
        (false, true) => check_service(backend, &service, errors),
        (false, false) => errors.push(backend.invalid_for("", "resource or service backend is required")),
    }
}

pub(crate) fn check_reference(reference: &Place<'_, '_>, errors: &mut Errors) {
    let group = reference.field("apiGroup");
    if group.is_set() {
        group.must_keep(dns1123_subdomain, errors);
    }
    for name in ["kind", "name"] {
        reference
            .field(name)
            .must_be_set_and_keep(path_segment_name, errors);
    }
}

fn check_service(backend: &Place<'_, '_>, service: &Place<'_, '_>, errors: &mut Errors) {
    service.field("name").must_be_set_and_keep(dns1123_label, errors);
    let port = service.field("port");
    let (name, number) = (port.field("name"), port.field("number"));
    match (name.text().is_empty(), number.number() == 0) {
        (true, true) => errors.push(backend.required("port name or number is required")),
        (true, false) => number.must_be_port(errors),
        (false, true) => name.must_keep(port_name, errors),
        (false, false) => errors.push(backend.invalid_for("", "cannot set both port name & port number")),
    }
}

/// Checks one load balancer ingress point.
fn check_point(point: &Place<'_, '_>, errors: &mut Errors) {
    let (ip, host) = (point.field("ip"), point.field("hostname"));
    if !ip.text().is_empty() {
        ip.must_be_ip(errors);
    }
    if !host.text().is_empty() {
        host.must_keep(dns1123_subdomain, errors);
        check_not_ip(&host, errors);
    }
}

/// The first hosts. Rules without a host count only after those: Kubernetes gives the number of all further rules.
fn ingress_hosts(ingress: &Value) -> String {
    let hosts = list_of(&ingress["spec"]["rules"], |rule| text_at(rule, "/host"));
    let named = hosts.iter().enumerate().filter(|(_, host)| !host.is_empty());
    let (places, shown): (Vec<usize>, Vec<&str>) = named
        .take(MOST_SHOWN)
        .map(|(place, host)| (place, host.as_str()))
        .unzip();
    let is_cut = places.len() == MOST_SHOWN && places[MOST_SHOWN - 1] + 1 < hosts.len();
    let more = if is_cut { hosts.len() - MOST_SHOWN } else { 0 };
    with_more(or(shown.join(","), "*"), more)
}

fn ingress_ports(row: &Row<'_>) -> &'static str {
    match row.at("/spec/tls").as_array().is_none_or(Vec::is_empty) {
        true => "80",
        false => "80, 443",
    }
}
