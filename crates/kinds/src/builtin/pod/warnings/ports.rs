//! Warnings about container ports that are defined twice, or ambiguously.

use std::collections::HashMap;

use watchkeeper_meta::quote;

use crate::Warnings;
use crate::rules::place::Place;
use crate::warnings::MAX_WARNINGS;

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

/// The ports so far, by what another must share with them to clash. Whatever is found clashes, so looking for clashes ends
/// with the last warning that is taken.
#[derive(Default)]
struct KnownPorts<'v> {
    ports: Vec<Known<'v>>,
    by_number: HashMap<(i64, &'v str), Vec<usize>>,
    by_host_port: HashMap<(i64, &'v str, i64), Vec<usize>>,
    by_host_address: HashMap<(i64, &'v str, i64, &'v str), Vec<usize>>,
    by_name: HashMap<&'v str, usize>,
}

impl<'v> KnownPorts<'v> {
    fn add(&mut self, port: Known<'v>) {
        let index = self.ports.len();
        let Known {
            number,
            protocol,
            host_port,
            host_ip,
            ..
        } = port;
        self.by_number.entry((number, protocol)).or_default().push(index);
        let by_host_port = self.by_host_port.entry((number, protocol, host_port));
        by_host_port.or_default().push(index);
        let by_address = self.by_host_address.entry((number, protocol, host_port, host_ip));
        by_address.or_default().push(index);
        self.by_name.entry(port.name).or_insert(index);
        self.ports.push(port);
    }

    /// The ports that clash with one, in their order, as many as there can be warnings of.
    fn clashing(&self, port: &Known<'v>) -> Vec<&Known<'v>> {
        let (number, protocol) = (port.number, port.protocol);
        let on_host = |host_port| self.by_host_port.get(&(number, protocol, host_port));
        let at = |host_ip| {
            self.by_host_address
                .get(&(number, protocol, port.host_port, host_ip))
        };
        let lists = match (port.host_port, port.host_ip) {
            (0, _) => [self.by_number.get(&(number, protocol)), None, None],
            (host_port, "") => [on_host(0), on_host(host_port), None],
            (_, host_ip) => [on_host(0), at(host_ip), at("")],
        };
        let found = lists
            .into_iter()
            .flatten()
            .flat_map(|list| list.iter().take(MAX_WARNINGS));
        let mut found: Vec<usize> = found.copied().collect();
        found.sort_unstable();
        found.into_iter().map(|index| &self.ports[index]).collect()
    }
}

pub(crate) fn warn(spec: &Place<'_, '_>, warnings: &Warnings) {
    let mut known = KnownPorts::default();
    for list in ["initContainers", "containers"] {
        for (index, container) in spec.field(list).items().enumerate() {
            for (place, port) in container.field("ports").items().enumerate() {
                if warnings.is_full() {
                    return;
                }
                let port = Known::of(&port, (list, index, place));
                warn_of_port(&port, &known, spec, warnings);
                known.add(port);
            }
        }
    }
    for (at, port) in known.ports.iter().enumerate() {
        let first = known.by_name[port.name];
        if !port.name.is_empty() && first != at {
            let (path, name) = (port.path(spec), quote(port.name));
            let first = known.ports[first].path(spec);
            warnings.add(format!(
                "{path}: duplicate port name {name} with {first}, services and probes that select ports by name \
                 will use {first}"
            ));
        }
    }
}

/// Warns about one port, given those before it.
fn warn_of_port<'v>(port: &Known<'v>, known: &KnownPorts<'v>, spec: &Place<'_, '_>, warnings: &Warnings) {
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
    for other in known.clashing(port) {
        if let Some(how) = port.clash(other) {
            let (path, other) = (port.path(spec), other.path(spec));
            warnings.add(format!("{path}: {how} port definition with {other}"));
        }
    }
}
