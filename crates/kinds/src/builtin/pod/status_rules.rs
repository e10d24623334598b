//! Validation of a pod's `/status`.

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_subdomain, qualified_name};

use super::sidecar_names;
use crate::rules::formats::parse_ip;
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};

/// The conditions of Kubernetes itself.
const CONDITIONS: &[&str] = &["Initialized", "PodScheduled", "Ready"];

/// Checks an update.
pub(crate) fn check_change(pod: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let (status, old) = (pod.field("status"), live.field("status"));
    check_conditions(pod, &status.field("conditions"), errors);
    let nominated = status.field("nominatedNodeName");
    if nominated.text() != old.field("nominatedNodeName").text() {
        nominated.may_keep(dns1123_subdomain, errors);
    }
    status.field("qosClass").must_stay(&old.field("qosClass"), errors);
    let restarts = live.value()["spec"]["restartPolicy"].as_str().unwrap_or_default();
    let sidecars = sidecar_names(live.value());
    for (name, restarts) in [
        ("containerStatuses", restarts),
        ("initContainerStatuses", restarts),
        ("ephemeralContainerStatuses", "Never"),
    ] {
        let is_sidecar = |container: &str| name == "initContainerStatuses" && sidecars.contains(container);
        check_ends(
            &status.field(name),
            &old.field(name),
            restarts,
            is_sidecar,
            errors,
        );
    }
    check_claims(pod, &status.field("resourceClaimStatuses"), errors);
    check_addresses(&status.field("podIPs"), "PodIP", errors);
    let (hosts, host) = (status.field("hostIPs"), status.field("hostIP"));
    if let Some(first) = hosts.items().next()
        && first.field("ip").text() != host.text()
    {
        errors.push(first.field("ip").invalid("must be equal to `hostIP`"));
    }
    check_addresses(&hosts, "HostIP", errors);
}

/// Checks that condition types are qualified names. Kubernetes' errors say `metadata`, not `status`.
fn check_conditions(pod: &Place<'_, '_>, conditions: &Place<'_, '_>, errors: &mut Errors) {
    let metadata = pod.field("metadata").with_value(pod.field("status").value());
    let shown = metadata.field("conditions").with_value(conditions.value());
    for condition in shown.items() {
        let kind = condition.field("type");
        if !CONDITIONS.contains(&kind.text()) {
            let reasons = qualified_name(kind.text()).into_iter();
            let place = kind.known_as("Type");
            errors.extend(reasons.map(|why| place.invalid_for(kind.text(), why)));
        }
    }
}

/// Checks that a container that terminated for good does not leave that state.
fn check_ends(
    new: &Place<'_, '_>,
    old: &Place<'_, '_>,
    restarts: &str,
    is_sidecar: impl Fn(&str) -> bool,
    errors: &mut Errors,
) {
    if restarts == "Always" {
        return;
    }
    let has_ended = |status: &Value| status["state"]["terminated"].is_object();
    let running = new.items().filter(|status| !has_ended(status.value()));
    let running: HashSet<&str> = running.map(|status| status.field("name").text()).collect();
    for before in old.items() {
        let name = before.field("name").text();
        let failed = before.value()["state"]["terminated"]["exitCode"] != 0;
        let may_run = (failed && restarts == "OnFailure") || is_sidecar(name);
        if !has_ended(before.value()) || may_run {
            continue;
        }
        if running.contains(name) {
            let state = before.path().child("state");
            errors.push(FieldError::forbidden(
                &state,
                "may not be transitioned to non-terminated state",
            ));
        }
    }
}

/// Checks that each status is of another claim of the pod.
fn check_claims(pod: &Place<'_, '_>, statuses: &Place<'_, '_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    let claims = pod.value()["spec"]["resourceClaims"].as_array();
    let claims = claims.into_iter().flatten();
    let claims: HashSet<&str> = claims.filter_map(|claim| claim["name"].as_str()).collect();
    for status in statuses.items() {
        let name = status.field("name");
        if !claims.contains(name.text()) {
            errors.push(name.invalid("must match the name of an entry in `spec.resourceClaims`"));
        }
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let made = status.field("resourceClaimName");
        if made.is_set() {
            let reasons = dns1123_subdomain(made.text()).into_iter();
            errors.extend(reasons.map(|why| name.invalid_for(made.text(), why)));
        }
    }
}

/// Checks a list of addresses: at most one per family.
fn check_addresses(addresses: &Place<'_, '_>, kind: &str, errors: &mut Errors) {
    let mut families = Vec::new();
    for address in addresses.items() {
        let text = address.field("ip").text();
        match parse_ip(text) {
            Ok(parsed) => families.push(parsed.is_ipv4()),
            Err(why) => errors.push(address.invalid_for(text, why)),
        }
    }
    let is_repeated = |family: bool| families.iter().filter(|other| **other == family).count() > 1;
    if is_repeated(true) || is_repeated(false) {
        let shown = addresses
            .items()
            .map(|address| go_structs::structure(kind, address.value()));
        let shown = format!("[{}]", shown.collect::<Vec<_>>().join(","));
        errors.push(addresses.invalid_in_go(shown, "may specify no more than one IP for each IP family"));
    }
}
