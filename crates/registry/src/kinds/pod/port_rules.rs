//! What is wrong with the ports of containers.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::FieldError;

use super::super::check::port_name;
use super::super::place::{Faults, Place};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub(super) const OUT_OF_RANGE: &str = "must be between 1 and 65535, inclusive";

/// Checks the ports of a container.
pub(super) fn check_ports(ports: &Place<'_, '_>, faults: &mut Faults) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.text().is_empty() {
            let reasons = port_name(name.text());
            if reasons.is_empty() && !names.insert(name.text()) {
                faults.push(name.duplicate());
            }
            faults.extend(reasons.into_iter().map(|reason| name.invalid(reason)));
        }
        let number = port.field("containerPort");
        match number.number() {
            0 => faults.push(number.required("")),
            _ => check_number(&number, faults),
        }
        let host_port = port.field("hostPort");
        if host_port.number() != 0 {
            check_number(&host_port, faults);
        }
        port.field("protocol").must_be_one_of(PROTOCOLS, faults);
    }
}

/// Refuses a number that no port has.
pub(super) fn check_number(port: &Place<'_, '_>, faults: &mut Faults) {
    if !(1..=65535).contains(&port.number()) {
        faults.push(port.invalid(OUT_OF_RANGE));
    }
}

/// Refuses what is neither a port's number nor its name.
pub(super) fn check_number_or_name(port: &Place<'_, '_>, faults: &mut Faults) {
    match port.value() {
        Value::String(name) => {
            let reasons = port_name(name).into_iter();
            faults.extend(reasons.map(|reason| port.invalid(reason)));
        }
        _ => check_number(port, faults),
    }
}

/// A container on the host's network has the host's ports. A template may leave them open.
pub(super) fn check_shared_ports(containers: &Place<'_, '_>, faults: &mut Faults) {
    for container in containers.items() {
        for port in container.field("ports").items() {
            let host_port = port.field("hostPort");
            if host_port.number() != 0 && host_port.number() != port.field("containerPort").number() {
                faults.push(host_port.invalid("must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}

/// A port of the host is one container's only.
pub(super) fn check_host_ports(containers: &Place<'_, '_>, faults: &mut Faults) {
    let mut taken = HashSet::new();
    for container in containers.items() {
        for port in container.field("ports").items() {
            let host_port = port.field("hostPort");
            if host_port.number() == 0 {
                continue;
            }
            let (protocol, ip) = (port.field("protocol"), port.field("hostIP"));
            let key = format!("{}/{}/{}", protocol.text(), ip.text(), host_port.number());
            if taken.contains(&key) {
                faults.push(FieldError::duplicate(&host_port.path(), key));
            } else {
                taken.insert(key);
            }
        }
    }
}
