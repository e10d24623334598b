//! Ports of a pod's containers that are meant twice, or might be.

use watchkeeper_meta::quote;

use super::super::super::place::Place;
use crate::write::Warnings;

/// A port, and where it was said.
struct Known<'v> {
    number: i64,
    protocol: &'v str,
    name: &'v str,
    host_port: i64,
    host_ip: &'v str,
    path: String,
}

impl<'v> Known<'v> {
    fn of(port: &Place<'v, '_>) -> Self {
        Self {
            number: port.field("containerPort").number(),
            protocol: port.field("protocol").text(),
            name: port.field("name").text(),
            host_port: port.field("hostPort").number(),
            host_ip: port.field("hostIP").text(),
            path: port.path().to_string(),
        }
    }

    /// How two mentions of one port go together, if they do not.
    fn clash(&self, other: &Self) -> Option<&'static str> {
        let is_same_port = self.host_port == other.host_port;
        if is_same_port && self.host_ip == other.host_ip {
            Some("duplicate")
        } else if self.host_port == 0 || other.host_port == 0 {
            Some("overlapping")
        } else if is_same_port && self.host_ip.is_empty() != other.host_ip.is_empty() {
            Some("dangerously ambiguous")
        } else {
            None
        }
    }
}

pub(super) fn warn(spec: &Place<'_, '_>, warnings: &Warnings) {
    let lists = [spec.field("initContainers"), spec.field("containers")];
    let mut known: Vec<Known<'_>> = Vec::new();
    for container in lists.iter().flat_map(Place::items) {
        for port in container.field("ports").items() {
            let port = Known::of(&port);
            let Known { path, host_ip, .. } = &port;
            if !host_ip.is_empty() && port.host_port == 0 {
                warnings.add(format!(
                    "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} \
                     HostIP:{host_ip}}}",
                    port.name, port.number, port.protocol
                ));
            }
            let same = known
                .iter()
                .filter(|other| (other.number, other.protocol) == (port.number, port.protocol));
            for other in same {
                if let Some(how) = port.clash(other) {
                    warnings.add(format!("{path}: {how} port definition with {}", other.path));
                }
            }
            known.push(port);
        }
    }
    for (at, port) in known.iter().enumerate().filter(|(_, port)| !port.name.is_empty()) {
        if let Some(first) = known[..at].iter().find(|other| other.name == port.name) {
            let (path, name, first) = (&port.path, quote(port.name), &first.path);
            warnings.add(format!(
                "{path}: duplicate port name {name} with {first}, services and probes that select ports by name \
                 will use {first}"
            ));
        }
    }
}
