//! Where the pods behind a service can be reached: endpoints, and the slices that replace them.

use std::net::IpAddr;

use serde_json::Value;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use watchkeeper_meta::{FieldError, FieldPath};

use super::check::{immutable, ip, items, not_local, one_of, port, required, set_default, text};
use super::defaulting::items_mut;
use super::formats::each;
use super::{Hooks, PLAIN};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;

pub(super) const ENDPOINTS: Hooks = Hooks {
    default: |endpoints| {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                set_default(port, "protocol", "TCP");
            }
        }
    },
    faults: |endpoints| {
        let mut faults = Vec::new();
        for (index, subset) in items(endpoints, "/subsets").enumerate() {
            subset_faults(subset, &FieldPath::new("subsets").index(index), &mut faults);
        }
        faults
    },
    ..PLAIN
};

pub(super) const SLICE: Hooks = Hooks {
    default: |slice| {
        for port in items_mut(slice, "ports") {
            set_default(port, "name", "");
            set_default(port, "protocol", "TCP");
        }
    },
    faults: slice_faults,
    update_faults: |_, slice, live| {
        let (name, mut faults) = ("addressType", Vec::new());
        immutable(&mut faults, &FieldPath::new(name), &slice[name], &live[name]);
        faults
    },
    ..PLAIN
};

fn subset_faults(subset: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let names = ["addresses", "notReadyAddresses"];
    let is_empty = |name: &&str| items(subset, &format!("/{name}")).next().is_none();
    if names.iter().all(is_empty) {
        let why = "must specify `addresses` or `notReadyAddresses`";
        faults.push(FieldError::required(path, why));
    }
    for name in names {
        for (index, address) in items(subset, &format!("/{name}")).enumerate() {
            address_faults(address, &path.child(name).index(index), faults);
        }
    }
    let ports: Vec<&Value> = items(subset, "/ports").collect();
    for (index, entry) in ports.iter().enumerate() {
        port_faults(entry, ports.len() > 1, &path.child("ports").index(index), faults);
    }
}

fn address_faults(address: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let stated = text(address, "/ip");
    let parsed = ip(faults, &path.child("ip"), stated);
    let host = text(address, "/hostname");
    if !host.is_empty() {
        each(faults, &path.child("hostname"), host, dns1123_label(host));
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        each(faults, &path.child("nodeName"), node, dns1123_subdomain(node));
    }
    match parsed {
        Some(address) => not_local(faults, &path.child("ip"), address),
        // Two checks of Kubernetes stumble over the same text.
        None => each(faults, &path.child("ip"), stated, ["must be a valid IP address"]),
    }
}

fn port_faults(entry: &Value, needs_name: bool, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let name = text(entry, "/name");
    if needs_name {
        required(faults, &path.child("name"), name);
    }
    if !name.is_empty() {
        each(faults, &path.child("name"), name, dns1123_label(name));
    }
    port(
        faults,
        &path.child("port"),
        entry["port"].as_i64().unwrap_or_default(),
    );
    one_of(
        faults,
        &path.child("protocol"),
        text(entry, "/protocol"),
        PROTOCOLS,
    );
    app_protocol_faults(entry, path, faults);
}

fn app_protocol_faults(entry: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    if let Some(protocol) = entry.get("appProtocol").and_then(Value::as_str) {
        each(
            faults,
            &path.child("appProtocol"),
            protocol,
            qualified_name(protocol),
        );
    }
}

fn slice_faults(slice: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let kind = text(slice, "/addressType");
    let path = FieldPath::new("addressType");
    match kind {
        "" => faults.push(FieldError::required(&path, "")),
        kind => one_of(&mut faults, &path, kind, &["FQDN", "IPv4", "IPv6"]),
    }
    let endpoints: Vec<&Value> = items(slice, "/endpoints").collect();
    let path = FieldPath::new("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        faults.push(FieldError::too_many(&path, endpoints.len(), MAX_ENDPOINTS));
    } else {
        for (index, endpoint) in endpoints.iter().enumerate() {
            endpoint_faults(endpoint, kind, &path.index(index), &mut faults);
        }
    }
    slice_port_faults(slice, &FieldPath::new("ports"), &mut faults);
    faults
}

fn endpoint_faults(endpoint: &Value, kind: &str, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let addresses: Vec<&str> = items(endpoint, "/addresses").filter_map(Value::as_str).collect();
    let at = path.child("addresses");
    match addresses.len() {
        0 => faults.push(FieldError::required(&at, "must contain at least 1 address")),
        count if count > MAX_ADDRESSES => faults.push(FieldError::too_many(&at, count, MAX_ADDRESSES)),
        _ => {}
    }
    for (index, address) in addresses.iter().enumerate() {
        let at = at.index(index);
        match kind {
            "IPv4" | "IPv6" => {
                let parsed = ip(faults, &at, address);
                if parsed.is_some_and(|parsed| parsed.is_ipv4() != (kind == "IPv4")) {
                    each(faults, &at, address, [format!("must be an {kind} address")]);
                }
                if let Some(parsed) = parsed {
                    not_local(faults, &at, IpAddr::to_canonical(&parsed));
                }
            }
            "FQDN" => each(faults, &at, address, dns1123_subdomain(address)),
            _ => {}
        }
    }
    if let Some(host) = endpoint.get("hostname").and_then(Value::as_str) {
        each(faults, &path.child("hostname"), host, dns1123_label(host));
    }
}

fn slice_port_faults(slice: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let ports: Vec<&Value> = items(slice, "/ports").collect();
    if ports.len() > MAX_PORTS {
        faults.push(FieldError::too_many(path, ports.len(), MAX_PORTS));
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, entry) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(entry, "/name");
        if !name.is_empty() {
            each(faults, &path.child("name"), name, dns1123_label(name));
        }
        if names.contains(&name) {
            faults.push(FieldError::duplicate(&path.child("name"), name));
        }
        names.push(name);
        one_of(
            faults,
            &path.child("protocol"),
            text(entry, "/protocol"),
            PROTOCOLS,
        );
        if let Some(number) = entry.get("port").and_then(Value::as_i64) {
            port(faults, &path.child("port"), number);
        }
        app_protocol_faults(entry, &path, faults);
    }
}
