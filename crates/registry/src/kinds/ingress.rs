//! Ingresses and their classes.

use std::net::IpAddr;

use serde_json::Value;
use watchkeeper_meta::validation::{dns1035_label, dns1123_label, dns1123_subdomain, path_segment_name};
use watchkeeper_meta::{FieldError, FieldPath};

use super::defaulting::{fill_empty, object_mut};
use super::formats::{check_domain_prefixed_path, port_name, wildcard_domain};
use super::place::{Faults, Place};
use super::{Hooks, PLAIN};
use crate::update::Part;

/// How the class was named before there was a field for it.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const MAX_CONTROLLER_LENGTH: usize = 250;
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const SCOPES: &[&str] = &["Cluster", "Namespace"];

pub(super) const INGRESS: Hooks = Hooks {
    check: |ingress, faults| check(&ingress.field("spec"), faults),
    check_new: check_class_annotation,
    check_change: |change, faults| {
        if change.part == Part::Status {
            let status = change.new.field("status");
            let balancer = status.field("loadBalancer");
            for point in balancer.field("ingress").items() {
                check_point(&point, faults);
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

pub(super) const CLASS: Hooks = Hooks {
    default: |class| {
        if let Some(spec) = object_mut(class, "spec")
            && let Some(parameters) = object_mut(spec, "parameters")
        {
            fill_empty(parameters, "scope", "Cluster");
        }
    },
    check: |class, faults| {
        let spec = class.field("spec");
        let controller = spec.field("controller");
        if controller.text().len() > MAX_CONTROLLER_LENGTH {
            faults.push(controller.too_long(MAX_CONTROLLER_LENGTH));
        }
        check_domain_prefixed_path(&controller, faults);
        check_parameters(&spec.field("parameters"), faults);
    },
    check_change: |change, faults| {
        let (new, live) = (change.new.field("spec"), change.live.field("spec"));
        new.field("controller")
            .must_stay(&live.field("controller"), faults);
    },
    change_first: true,
    ..PLAIN
};

/// The class has one name, however it is named.
fn check_class_annotation(ingress: &Place<'_, '_>, faults: &mut Faults) {
    let annotation = ingress.value()["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class = ingress.value()["spec"]["ingressClassName"].as_str();
    if let (Some(annotation), Some(class)) = (annotation, class)
        && annotation != class
    {
        // Kubernetes leaves the metadata out of the path.
        let path = FieldPath::new("annotations").child(CLASS_ANNOTATION);
        let why = "must match `ingressClassName` when both are specified";
        faults.push(FieldError::invalid(&path, annotation, why));
    }
}

fn check(spec: &Place<'_, '_>, faults: &mut Faults) {
    let (backend, rules) = (spec.field("defaultBackend"), spec.field("rules"));
    if rules.len() == 0 && !backend.is_set() {
        let why = "either `defaultBackend` or `rules` must be specified";
        faults.push(spec.invalid_for(Value::Null, why));
    }
    if backend.is_set() {
        check_backend(&backend, faults);
    }
    for rule in rules.items() {
        check_rule(&rule, faults);
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            check_host(&host, faults);
        }
        tls.field("secretName").may_keep(dns1123_subdomain, faults);
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        class.must_keep(dns1123_subdomain, faults);
    }
}

fn check_rule(rule: &Place<'_, '_>, faults: &mut Faults) {
    let host = rule.field("host");
    if !host.text().is_empty() {
        check_not_ip(&host, faults);
        check_host(&host, faults);
    }
    let http = rule.field("http");
    if !http.is_set() {
        return;
    }
    let paths = http.field("paths");
    if paths.len() == 0 {
        faults.push(paths.required(""));
    }
    paths.items().for_each(|path| check_path(&path, faults));
}

fn check_not_ip(host: &Place<'_, '_>, faults: &mut Faults) {
    if host.text().parse::<IpAddr>().is_ok() {
        faults.push(host.invalid("must be a DNS name, not an IP address"));
    }
}

/// A host, or all hosts of a domain.
fn check_host(host: &Place<'_, '_>, faults: &mut Faults) {
    match host.text().contains('*') {
        true => host.must_keep(wildcard_domain, faults),
        false => host.must_keep(dns1123_subdomain, faults),
    }
}

fn check_path(entry: &Place<'_, '_>, faults: &mut Faults) {
    let (kind, path) = (entry.field("pathType"), entry.field("path"));
    let mut refuse = |why: String| faults.push(path.invalid_for(path.text(), why));
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
            faults.push(kind.required("pathType must be specified"));
            return;
        }
        _ => faults.push(kind.unsupported(PATH_TYPES)),
    }
    check_backend(&entry.field("backend"), faults);
}

fn check_backend(backend: &Place<'_, '_>, faults: &mut Faults) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => {
            faults.push(backend.invalid_for("", "cannot set both resource and service backends"));
        }
        (true, false) => check_reference(&resource, faults),
        (false, true) => check_service(backend, &service, faults),
        (false, false) => faults.push(backend.invalid_for("", "resource or service backend is required")),
    }
}

fn check_reference(reference: &Place<'_, '_>, faults: &mut Faults) {
    let group = reference.field("apiGroup");
    if group.is_set() {
        group.must_keep(dns1123_subdomain, faults);
    }
    for name in ["kind", "name"] {
        reference
            .field(name)
            .must_be_set_and_keep(path_segment_name, faults);
    }
}

fn check_service(backend: &Place<'_, '_>, service: &Place<'_, '_>, faults: &mut Faults) {
    service.field("name").must_be_set_and_keep(dns1035_label, faults);
    let port = service.field("port");
    let (name, number) = (port.field("name"), port.field("number"));
    match (name.text().is_empty(), number.number() == 0) {
        (true, true) => faults.push(backend.required("port name or number is required")),
        (true, false) => number.must_be_port(faults),
        (false, true) => name.must_keep(port_name, faults),
        (false, false) => faults.push(backend.invalid_for("", "cannot set both port name & port number")),
    }
}

/// Where an ingress can be reached.
fn check_point(point: &Place<'_, '_>, faults: &mut Faults) {
    let (ip, host) = (point.field("ip"), point.field("hostname"));
    if !ip.text().is_empty() {
        ip.must_be_ip(faults);
    }
    if !host.text().is_empty() {
        host.must_keep(dns1123_subdomain, faults);
        check_not_ip(&host, faults);
    }
}

fn check_parameters(parameters: &Place<'_, '_>, faults: &mut Faults) {
    if !parameters.is_set() {
        return;
    }
    check_reference(parameters, faults);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    scope.must_be_one_of(SCOPES, faults);
    match (scope.text(), namespace.is_set()) {
        ("Namespace", false) => {
            faults.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", true) => namespace.must_keep(dns1123_label, faults),
        ("Cluster", true) => faults.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'")),
        _ => {}
    }
}
