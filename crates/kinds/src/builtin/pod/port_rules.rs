//! Validation of container ports.

use std::collections::HashSet;

use watchkeeper_meta::FieldError;

use super::Around;
use crate::rules::formats::{PROTOCOLS, port_name};
use crate::rules::place::{Errors, Place};

/// Checks the ports of a container.
pub(crate) fn check_ports(ports: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.text().is_empty() {
            let reasons = port_name(name.text());
            if reasons.is_empty() && !names.insert(name.text()) {
                errors.push(name.duplicate());
            }
            errors.extend(reasons.into_iter().map(|reason| name.invalid(reason)));
        }
        let number = port.field("containerPort");
        match number.number() {
            0 => errors.push(number.required("")),
            _ => number.must_be_port(errors),
        }
        let host_port = port.field("hostPort");
        if host_port.number() != 0 {
            host_port.must_be_port(errors);
        }
        port.field("protocol").must_be_one_of(PROTOCOLS, errors);
    }
}

/// Checks that host ports equal container ports on the host network. Templates may leave them unset.
pub(crate) fn check_shared_ports(containers: &Place<'_, '_>, around: &Around<'_>, errors: &mut Errors) {
    for container in containers.items() {
        for port in container.field("ports").items() {
            let host_port = port.field("hostPort");
            let is_given = around.pod.is_some() || host_port.number() != 0;
            if is_given && host_port.number() != port.field("containerPort").number() {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(host_port.invalid_for(host_port.number(), why));
            }
        }
    }
}

/// Checks that no two containers use the same host port.
pub(crate) fn check_host_ports(containers: &Place<'_, '_>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for container in containers.items() {
        check_host_ports_of(&container, &mut taken, errors);
    }
}

/// Checks the host ports of one container against those already in use.
pub(crate) fn check_host_ports_of(
    container: &Place<'_, '_>,
    taken: &mut HashSet<String>,
    errors: &mut Errors,
) {
    for port in container.field("ports").items() {
        let host_port = port.field("hostPort");
        if host_port.number() == 0 {
            continue;
        }
        let (protocol, ip) = (port.field("protocol"), port.field("hostIP"));
        let key = format!("{}/{}/{}", protocol.text(), ip.text(), host_port.number());
        if taken.contains(&key) {
            errors.push(FieldError::duplicate(&host_port.path(), key));
        } else {
            taken.insert(key);
        }
    }
}
