//! Endpoints: the addresses of a service's pods. Superseded by EndpointSlice.

use serde_json::{Value, json};
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, qualified_name};

use crate::Warnings;
use crate::kind::{Hooks, Kind, PLAIN};
use crate::rules::defaulting::{fill_empty, items_mut};
use crate::rules::formats::{PROTOCOLS, check_not_local, parse_ip, warn_of_ip};
use crate::rules::place::{Errors, Place};
use crate::table::Column;
use crate::table::cells::{MOST_SHOWN, NONE, list_of, plain, some_of_many, text_at};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

/// The kind served as `endpoints`.
pub static KIND: Kind = Kind {
    group: "",
    name: "Endpoints",
    plural: "endpoints",
    storage_name: Some("services/endpoints"),
    deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
    creates_on_update: true,
    columns: COLUMNS,
    hooks: HOOKS,
    ..Kind::PLAIN
};

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Endpoints", |row| json!(shown_endpoints(row.object))),
    Column::AGE,
];

const HOOKS: Hooks = Hooks {
    default: |endpoints| {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                fill_empty(port, "protocol", "TCP");
            }
        }
    },
    check: |endpoints, errors| {
        let subsets = endpoints.field("subsets");
        subsets.items().for_each(|subset| check_subset(&subset, errors));
    },
    warn: |endpoints, _, warnings| warn(&Place::object(endpoints), warnings),
    ..PLAIN
};

/// Warns of addresses, unless Kubernetes' own controller wrote them.
fn warn(endpoints: &Place<'_, '_>, warnings: &Warnings) {
    let (metadata, subsets) = (endpoints.field("metadata"), endpoints.field("subsets"));
    if metadata.field("labels").entry(MANAGED_BY).text() == CONTROLLER {
        return;
    }
    for subset in subsets.items() {
        for list in ["addresses", "notReadyAddresses"] {
            let addresses = subset.field(list);
            addresses
                .items()
                .for_each(|address| warn_of_ip(&address.field("ip"), warnings));
        }
    }
}

fn check_subset(subset: &Place<'_, '_>, errors: &mut Errors) {
    let lists = ["addresses", "notReadyAddresses"].map(|name| subset.field(name));
    if lists.iter().all(|list| list.len() == 0) {
        errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
    }
    for list in lists {
        list.items().for_each(|address| check_address(&address, errors));
    }
    let ports = subset.field("ports");
    for port in ports.items() {
        check_port(&port, ports.len() > 1, errors);
    }
}

fn check_address(address: &Place<'_, '_>, errors: &mut Errors) {
    let ip = address.field("ip");
    ip.must_be_ip(errors);
    address.field("hostname").may_keep(dns1123_label, errors);
    let node = address.field("nodeName");
    if node.is_set() {
        node.must_keep(dns1123_subdomain, errors);
    }
    check_reachable(&ip, errors);
}

/// Checks that an endpoint's IP address is not local. For an unparsable one, Kubernetes reports a second error here.
pub(crate) fn check_reachable(ip: &Place<'_, '_>, errors: &mut Errors) {
    match parse_ip(ip.text()) {
        Ok(address) => check_not_local(ip, address, errors),
        Err(_) => errors.push(ip.invalid_for(ip.text(), "must be a valid IP address")),
    }
}

fn check_port(entry: &Place<'_, '_>, needs_name: bool, errors: &mut Errors) {
    let name = entry.field("name");
    match needs_name {
        true => name.must_be_set_and_keep(dns1123_label, errors),
        false => name.may_keep(dns1123_label, errors),
    }
    entry.field("port").must_be_port(errors);
    entry.field("protocol").must_be_one_of(PROTOCOLS, errors);
    check_app_protocol(entry, errors);
}

pub(crate) fn check_app_protocol(entry: &Place<'_, '_>, errors: &mut Errors) {
    let protocol = entry.field("appProtocol");
    if protocol.is_set() {
        protocol.must_keep(qualified_name, errors);
    }
}

fn shown_endpoints(object: &Value) -> String {
    let subsets = object["subsets"].as_array();
    if subsets.is_none_or(Vec::is_empty) {
        return NONE.to_owned();
    }
    // Each address has each port: only those that are shown are put together.
    let (mut shown, mut count) = (Vec::new(), 0);
    for subset in subsets.into_iter().flatten() {
        let addresses = list_of(&subset["addresses"], |address| text_at(address, "/ip"));
        let ports = list_of(&subset["ports"], |port| plain(&port["port"]));
        count += addresses.len() * ports.len().max(1);
        let room = MOST_SHOWN - shown.len();
        match ports.is_empty() {
            true => shown.extend(addresses.into_iter().take(room)),
            false => {
                let pairs = ports.iter().flat_map(|port| {
                    addresses.iter().map(move |address| match address.contains(':') {
                        true => format!("[{address}]:{port}"),
                        false => format!("{address}:{port}"),
                    })
                });
                shown.extend(pairs.take(room));
            }
        }
    }
    // Empty if no address is ready.
    some_of_many(&shown, count, "")
}
