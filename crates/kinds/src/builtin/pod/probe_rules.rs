//! Validation of probes and lifecycle hooks.

use crate::rules::formats::http_header;
use crate::rules::place::{Errors, Place};

const SCHEMES: &[&str] = &["HTTP", "HTTPS"];

/// The probe handlers.
const PROBES: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
/// The lifecycle hook handlers.
const HOOKS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];

/// Checks the probes of a container; `grace` is the pod's termination grace period.
pub(crate) fn check_probes(container: &Place<'_, '_>, grace: i64, errors: &mut Errors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(name);
        if !probe.is_set() {
            continue;
        }
        check_probe(&probe, grace, errors);
        let successes = probe.field("successThreshold");
        let grace = probe.field("terminationGracePeriodSeconds");
        if name == "readinessProbe" {
            if grace.is_set() {
                errors.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if successes.number() != 1 {
            errors.push(successes.invalid("must be 1"));
        }
    }
}

fn check_probe(probe: &Place<'_, '_>, grace: i64, errors: &mut Errors) {
    check_handler(probe, PROBES, grace, errors);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        probe.field(name).must_not_be_negative(errors);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.is_set() && grace.number() <= 0 {
        errors.push(grace.invalid("must be greater than 0"));
    }
}

/// Checks the lifecycle hooks of a container.
pub(crate) fn check_lifecycle(lifecycle: &Place<'_, '_>, grace: i64, errors: &mut Errors) {
    for name in ["postStart", "preStop"] {
        let handler = lifecycle.field(name);
        if handler.is_set() {
            check_handler(&handler, HOOKS, grace, errors);
        }
    }
}

/// Checks that there is exactly one handler, and that it is valid.
fn check_handler(place: &Place<'_, '_>, ways: &[&str], grace: i64, errors: &mut Errors) {
    let mut found = false;
    for name in ways {
        let handler = place.field(name);
        if !handler.is_set() {
            continue;
        }
        match found {
            true => errors.push(handler.forbidden("may not specify more than 1 handler type")),
            false => check_one_handler(name, &handler, grace, errors),
        }
        found = true;
    }
    if !found {
        errors.push(place.required("must specify a handler type"));
    }
}

fn check_one_handler(name: &str, handler: &Place<'_, '_>, grace: i64, errors: &mut Errors) {
    match name {
        "exec" => {
            let command = handler.field("command");
            if command.len() == 0 {
                errors.push(command.required(""));
            }
        }
        "httpGet" => check_http_get(handler, errors),
        "tcpSocket" => handler.field("port").must_be_port_or_name(errors),
        "grpc" => handler.field("port").must_be_port(errors),
        _ => {
            let seconds = handler.field("seconds").number();
            if !(0..=grace).contains(&seconds) {
                let why =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                errors.push(handler.invalid_for(seconds, why));
            }
        }
    }
}

fn check_http_get(request: &Place<'_, '_>, errors: &mut Errors) {
    request.field("path").must_be_set(errors);
    request.field("port").must_be_port_or_name(errors);
    request.field("scheme").is_one_of(SCHEMES, errors);
    let headers = request.field("httpHeaders");
    for header in headers.items() {
        let name = header.field("name").text();
        let reasons = http_header(name).into_iter();
        errors.extend(reasons.map(|why| headers.invalid_for(name, why)));
    }
}
