//! What is wrong with the probes and hooks of containers.

use super::super::place::{Faults, Place, Rule};
use super::port_rules::{check_number, check_number_or_name};

const SCHEMES: &[&str] = &["HTTP", "HTTPS"];

/// The ways to ask a container how it is, or to tell it what happens.
const HANDLERS: &[(&str, Rule)] = &[
    ("exec", check_exec),
    ("httpGet", check_http_get),
    ("tcpSocket", |socket, faults| {
        check_number_or_name(&socket.field("port"), faults);
    }),
    ("grpc", |call, faults| check_number(&call.field("port"), faults)),
    ("sleep", |sleep, faults| {
        sleep.field("seconds").must_not_be_negative(faults);
    }),
];

/// Checks the probes of a container.
pub(super) fn check_probes(container: &Place<'_, '_>, faults: &mut Faults) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(name);
        if !probe.is_set() {
            continue;
        }
        check_probe(&probe, faults);
        let successes = probe.field("successThreshold");
        let grace = probe.field("terminationGracePeriodSeconds");
        if name == "readinessProbe" {
            if grace.is_set() {
                faults.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if successes.number() != 1 {
            faults.push(successes.invalid("must be 1"));
        }
    }
}

fn check_probe(probe: &Place<'_, '_>, faults: &mut Faults) {
    check_handler(probe, faults);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.field(name).must_not_be_negative(faults);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.is_set() && grace.number() <= 0 {
        faults.push(grace.invalid("must be greater than 0"));
    }
}

/// Checks that there is one way to ask, and that it is in order.
pub(super) fn check_handler(place: &Place<'_, '_>, faults: &mut Faults) {
    let mut found = false;
    for (name, check) in HANDLERS {
        let handler = place.field(name);
        if !handler.is_set() {
            continue;
        }
        if found {
            faults.push(handler.forbidden("may not specify more than 1 handler type"));
        } else {
            check(&handler, faults);
        }
        found = true;
    }
    if !found {
        faults.push(place.required("must specify a handler type"));
    }
}

fn check_exec(exec: &Place<'_, '_>, faults: &mut Faults) {
    let command = exec.field("command");
    if command.len() == 0 {
        faults.push(command.required(""));
    }
}

fn check_http_get(request: &Place<'_, '_>, faults: &mut Faults) {
    request.field("path").must_be_set(faults);
    check_number_or_name(&request.field("port"), faults);
    let scheme = request.field("scheme");
    if !SCHEMES.contains(&scheme.text()) {
        faults.push(scheme.unsupported(SCHEMES));
    }
}
