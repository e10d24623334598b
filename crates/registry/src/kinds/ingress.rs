//! Ingresses and their classes.

use std::net::IpAddr;

use serde_json::Value;
use watchkeeper_meta::validation::{dns1035_label, dns1123_subdomain};
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{immutable, items, one_of, port, port_name, required, text};
use super::formats::{domain_prefixed_path, each};
use super::{Hooks, PLAIN};
use crate::update::Part;

/// How the class was named before there was a field for it.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const MAX_CONTROLLER_LENGTH: usize = 250;

pub(super) const INGRESS: Hooks = Hooks {
    faults,
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
    faults: |class| {
        let path = FieldPath::new("spec").child("controller");
        let controller = text(class, "/spec/controller");
        let mut faults = Vec::new();
        if controller.len() > MAX_CONTROLLER_LENGTH {
            faults.push(FieldError::too_long(&path, MAX_CONTROLLER_LENGTH));
        }
        domain_prefixed_path(&mut faults, &path, controller);
        faults
    },
    update_faults: |part, class, live| {
        let mut faults = Vec::new();
        let controller = |object: &Value| object["spec"]["controller"].clone();
        if part != Part::Status {
            let path = FieldPath::new("spec").child("controller");
            immutable(&mut faults, &path, &controller(class), &controller(live));
        }
        faults
    },
    ..PLAIN
};

fn faults(ingress: &Value) -> Vec<FieldError> {
    let spec = FieldPath::new("spec");
    let mut faults = Vec::new();
    let backend = ingress.pointer("/spec/defaultBackend");
    if items(ingress, "/spec/rules").next().is_none() && backend.is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        faults.push(FieldError::invalid(&spec, Value::Null, why));
    }
    if let Some(backend) = backend {
        backend_faults(backend, &spec.child("defaultBackend"), &mut faults);
    }
    for (index, rule) in items(ingress, "/spec/rules").enumerate() {
        rule_faults(rule, &spec.child("rules").index(index), &mut faults);
    }
    for (index, tls) in items(ingress, "/spec/tls").enumerate() {
        tls_faults(tls, &spec.child("tls").index(index), &mut faults);
    }
    let class = text(ingress, "/spec/ingressClassName");
    if ingress.pointer("/spec/ingressClassName").is_some() {
        let path = spec.child("ingressClassName");
        each(&mut faults, &path, class, dns1123_subdomain(class));
    }
    faults
}

fn rule_faults(rule: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let host = text(rule, "/host");
    if !host.is_empty() {
        let path = path.child("host");
        if host.parse::<IpAddr>().is_ok() {
            each(faults, &path, host, ["must be a DNS name, not an IP address"]);
        }
        host_faults(host, &path, faults);
    }
    let Some(http) = rule.get("http").filter(|http| http.is_object()) else {
        return;
    };
    let path = path.child("http").child("paths");
    if items(http, "/paths").next().is_none() {
        faults.push(FieldError::required(&path, ""));
    }
    for (index, entry) in items(http, "/paths").enumerate() {
        path_faults(entry, &path.index(index), faults);
    }
}

/// A host, or all hosts of a domain.
fn host_faults(host: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    if !host.contains('*') {
        return each(faults, path, host, dns1123_subdomain(host));
    }
    let is_wildcard = host
        .strip_prefix("*.")
        .is_some_and(|domain| dns1123_subdomain(domain).is_empty());
    if !is_wildcard {
        let why = r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        each(faults, path, host, [why]);
    }
}

fn path_faults(entry: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let (url, url_path) = (text(entry, "/path"), path.child("path"));
    let mut refuse = |why: String| faults.push(FieldError::invalid(&url_path, url, why));
    match text(entry, "/pathType") {
        "" => {
            faults.push(FieldError::required(
                &path.child("pathType"),
                "pathType must be specified",
            ));
            return;
        }
        "Exact" | "Prefix" => {
            if !url.starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if url.contains(part) {
                    refuse(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if url.ends_with(end) {
                    refuse(format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" if !url.is_empty() && !url.starts_with('/') => {
            refuse("must be an absolute path".to_owned());
        }
        other => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            one_of(faults, &path.child("pathType"), other, &known);
        }
    }
    backend_faults(&entry["backend"], &path.child("backend"), faults);
}

fn backend_faults(backend: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let (resource, service) = (backend.get("resource"), backend.get("service"));
    let service = match (resource, service) {
        (Some(_), Some(_)) => {
            return each(
                faults,
                path,
                "",
                ["cannot set both resource and service backends"],
            );
        }
        (None, None) => return each(faults, path, "", ["resource or service backend is required"]),
        (Some(resource), None) => {
            let path = path.child("resource");
            required(faults, &path.child("kind"), text(resource, "/kind"));
            required(faults, &path.child("name"), text(resource, "/name"));
            return;
        }
        (None, Some(service)) => service,
    };
    let name = text(service, "/name");
    let at = path.child("service");
    required(faults, &at.child("name"), name);
    if !name.is_empty() {
        each(faults, &at.child("name"), name, dns1035_label(name));
    }
    let at = at.child("port");
    let number = service["port"]["number"].as_i64().unwrap_or_default();
    match (text(service, "/port/name"), number) {
        ("", 0) => faults.push(FieldError::required(path, "port name or number is required")),
        ("", number) => port(faults, &at.child("number"), number),
        (name, 0) => each(faults, &at.child("name"), name, port_name(name)),
        _ => each(faults, path, "", ["cannot set both port name & port number"]),
    }
}

fn tls_faults(tls: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    for (index, host) in items(tls, "/hosts").enumerate() {
        let host = host.as_str().unwrap_or_default();
        host_faults(host, &path.child("hosts").index(index), faults);
    }
    let secret = text(tls, "/secretName");
    if !secret.is_empty() {
        each(
            faults,
            &path.child("secretName"),
            secret,
            dns1123_subdomain(secret),
        );
    }
}
