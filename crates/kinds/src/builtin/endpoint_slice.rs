//! EndpointSlice: a part of the network endpoints of a service.

use std::collections::HashSet;

use serde_json::{Value, json};
use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, label_value, labels};

use crate::Warnings;
use crate::builtin::endpoints::{check_app_protocol, check_reachable};
use crate::kind::{Generation, Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill, items_mut};
use crate::rules::formats::{PROTOCOLS, warn_of_ip};
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{list_of, plain, some_of};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_TOPOLOGY_LABELS: usize = 16;
const MAX_HINTS: usize = 8;
const ADDRESS_TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLERS: &[&str] = &[
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
];

/// The kind served as `endpointslices`.
pub static KIND: Kind = Kind {
    group: "discovery.k8s.io",
    name: "EndpointSlice",
    plural: "endpointslices",
    generation: Generation::SpecAndLabels,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("AddressType", |row| json!(row.text("/addressType"))),
    Column::text("Ports", |row| json!(some_of(slice_ports(row.object), "<unset>"))),
    Column::text("Endpoints", |row| {
        json!(some_of(slice_addresses(row.object), "<unset>"))
    }),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |slice| {
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    },
    check: check_slice,
    check_change: |change, errors| {
        let (new, live) = (change.new.field("addressType"), change.live.field("addressType"));
        new.must_stay_unshown(&live, errors);
    },
    warn: |slice, live, warnings| {
        // The path is Kubernetes' own: a slice has no spec.
        if live.is_none() && slice["addressType"] == "FQDN" {
            warnings.add("spec.addressType: FQDN endpoints are deprecated");
        }
        warn_of_addresses(&Place::object(slice), warnings);
    },
    ..PLAIN
};

/// Warns of addresses, unless one of Kubernetes' own controllers wrote them.
fn warn_of_addresses(slice: &Place<'_, '_>, warnings: &Warnings) {
    let (metadata, endpoints) = (slice.field("metadata"), slice.field("endpoints"));
    if CONTROLLERS.contains(&metadata.field("labels").entry(MANAGED_BY).text()) {
        return;
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.field("addresses");
        addresses
            .items()
            .for_each(|address| warn_of_ip(&address, warnings));
    }
}

fn check_slice(slice: &Place<'_, '_>, errors: &mut Errors) {
    let kind = slice.field("addressType");
    kind.must_be_one_of(ADDRESS_TYPES, errors);
    let endpoints = slice.field("endpoints");
    match endpoints.len() > MAX_ENDPOINTS {
        true => errors.push(endpoints.too_many(MAX_ENDPOINTS)),
        false => {
            let endpoints = endpoints.items();
            endpoints.for_each(|endpoint| check_endpoint(&endpoint, kind.text(), errors));
        }
    }
    check_slice_ports(&slice.field("ports"), errors);
}

fn check_endpoint(endpoint: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.field("addresses");
    if addresses.len() == 0 {
        errors.push(addresses.required(""));
    } else if addresses.len() > MAX_ADDRESSES {
        errors.push(addresses.too_many(MAX_ADDRESSES));
    }
    for address in addresses.items() {
        match kind {
            "IPv4" | "IPv6" => check_address_of(&address, kind, errors),
            "FQDN" => errors.extend(domain_error(&address)),
            _ => {}
        }
    }
    let node = endpoint.field("nodeName");
    if node.is_set() {
        node.must_keep(dns1123_subdomain, errors);
    }
    let topology = endpoint.field("deprecatedTopology");
    if topology.len() > MAX_TOPOLOGY_LABELS {
        errors.push(topology.too_many(MAX_TOPOLOGY_LABELS));
    }
    if topology.is_set() {
        errors.append(labels(topology.value(), &topology.path()));
    }
    let host = endpoint.field("hostname");
    if host.is_set() {
        host.must_keep(dns1123_label, errors);
    }
    check_hints(&endpoint.field("hints"), errors);
}

/// The first error of an address that must be a domain of two labels or more; a dot may end it.
fn domain_error(address: &Place<'_, '_>) -> Option<FieldError> {
    let text = address.text();
    let domain = text.strip_suffix('.').unwrap_or(text);
    let problems = dns1123_subdomain(domain);
    if text.is_empty() {
        return Some(address.required(""));
    }
    if !problems.is_empty() {
        return Some(address.invalid_for(domain, problems.join(",")));
    }
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return Some(address.invalid_for(domain, why));
    }
    let mut labels = domain.split('.').map(|label| (label, dns1123_label(label)));
    let (label, problems) = labels.find(|(_, problems)| !problems.is_empty())?;
    Some(address.invalid_for(label, problems.join(",")))
}

/// Checks that an address belongs to the slice's address type.
fn check_address_of(address: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let Some(parsed) = address.must_be_ip(errors) else {
        return;
    };
    if parsed.is_ipv4() != (kind == "IPv4") {
        errors.push(address.invalid(format!("must be an {kind} address")));
    }
    check_reachable(address, errors);
}

fn check_hints(hints: &Place<'_, '_>, errors: &mut Errors) {
    for (name, rule) in [
        ("forZones", label_value as fn(&str) -> Vec<String>),
        ("forNodes", dns1123_subdomain),
    ] {
        let places = hints.field(name);
        if places.len() > MAX_HINTS {
            errors.push(places.too_many(MAX_HINTS));
            continue;
        }
        let mut names = HashSet::new();
        for place in places.items() {
            let name = place.field("name");
            if !names.insert(name.text()) {
                errors.push(name.duplicate());
            }
            name.must_keep(rule, errors);
        }
    }
}

fn check_slice_ports(ports: &Place<'_, '_>, errors: &mut Errors) {
    if ports.len() > MAX_PORTS {
        errors.push(ports.too_many(MAX_PORTS));
        return;
    }
    let mut names = HashSet::new();
    for entry in ports.items() {
        let name = entry.field("name");
        name.may_keep(dns1123_label, errors);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        entry.field("protocol").is_one_of(PROTOCOLS, errors);
        check_app_protocol(&entry, errors);
    }
}

fn slice_ports(slice: &Value) -> Vec<String> {
    list_of(&slice["ports"], |port| match &port["port"] {
        Value::Null => "*".to_owned(),
        number => plain(number),
    })
}

fn slice_addresses(slice: &Value) -> Vec<String> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .flat_map(|endpoint| list_of(&endpoint["addresses"], plain))
        .collect()
}
