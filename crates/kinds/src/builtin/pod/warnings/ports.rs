//! Warnings about container ports that are defined twice, or ambiguously.

use watchkeeper_meta::quote;

use crate::Warnings;
use crate::rules::place::Place;

/// A port and its position.
struct Known<'v> {
    number: i64,
    protocol: &'v str,
    name: &'v str,
    host_port: i64,
    host_ip: &'v str,
    /// The list of containers, the container's index, and the port's index.
    at: (&'static str, usize, usize),
}

impl<'v> Known<'v> {
    fn of(port: &Place<'v, '_>, at: (&'static str, usize, usize)) -> Self {
        Self {
            number: port.field("containerPort").number(),
            protocol: port.field("protocol").text(),
            name: port.field("name").text(),
            host_port: port.field("hostPort").number(),
            host_ip: port.field("hostIP").text(),
            at,
        }
    }

    fn path(&self, spec: &Place<'_, '_>) -> String {
        let (list, container, port) = self.at;
        let containers = spec.path().child(list);
        containers.index(container).child("ports").index(port).to_string()
    }

    /// The kind of conflict between two ports, if any.
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

pub(crate) fn warn(spec: &Place<'_, '_>, warnings: &Warnings) {
    let mut known: Vec<Known<'_>> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec.field(list).items().enumerate() {
            for (place, port) in container.field("ports").items().enumerate() {
                let port = Known::of(&port, (list, index, place));
                warn_of_port(&port, &known, spec, warnings);
                known.push(port);
            }
        }
    }
    for (at, port) in known.iter().enumerate().filter(|(_, port)| !port.name.is_empty()) {
        if let Some(first) = known[..at].iter().find(|other| other.name == port.name) {
            let (path, name, first) = (port.path(spec), quote(port.name), first.path(spec));
            warnings.add(format!(
                "{path}: duplicate port name {name} with {first}, services and probes that select ports by name \
                 will use {first}"
            ));
        }
    }
}

/// Warns about one port, given those before it.
fn warn_of_port(port: &Known<'_>, known: &[Known<'_>], spec: &Place<'_, '_>, warnings: &Warnings) {
    let host_ip = port.host_ip;
    if !host_ip.is_empty() && port.host_port == 0 {
        warnings.add(format!(
            "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{host_ip}}}",
            port.path(spec),
            port.name,
            port.number,
            port.protocol
        ));
    }
    let same = known
        .iter()
        .filter(|other| (other.number, other.protocol) == (port.number, port.protocol));
    for other in same {
        if let Some(how) = port.clash(other) {
            let (path, other) = (port.path(spec), other.path(spec));
            warnings.add(format!("{path}: {how} port definition with {other}"));
        }
    }
}
