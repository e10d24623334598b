//! Validation of the annotations that have a meaning for pods, on pods and templates.

use std::cell::LazyCell;
use std::collections::HashSet;

use super::warnings::APP_ARMOR;
use crate::rules::formats::check_no_steps_back;
use crate::rules::place::{Errors, Place};

/// Marks a mirror pod: the API object of a static pod.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Checks the annotations of the object that has the spec.
pub(crate) fn check_annotations(annotations: &Place<'_, '_>, spec: &Place<'_, '_>, errors: &mut Errors) {
    let containers = LazyCell::new(|| container_names(spec));
    for (key, annotation) in annotations.entries() {
        match key {
            MIRROR if spec.field("nodeName").text().is_empty() => {
                errors.push(annotation.invalid("must set spec.nodeName if mirror pod annotation is set"));
            }
            DELETION_COST if !is_cost(annotation.text()) => {
                errors.push(annotation.invalid("must be a 32bit integer"));
            }
            SECCOMP_POD => check_seccomp(key, &annotation, annotations, errors),
            key if key.starts_with(SECCOMP_CONTAINER) => {
                check_seccomp(key, &annotation, annotations, errors);
            }
            _ => {}
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            if !containers.contains(container) {
                errors.push(annotation.invalid_for(container, "container not found"));
            }
            if !is_app_armor(annotation.text()) {
                let shown = watchkeeper_meta::quote(annotation.text());
                errors.push(annotation.invalid(format!("invalid AppArmor profile name: {shown}")));
            }
        }
    }
}

fn container_names<'v>(spec: &Place<'v, '_>) -> HashSet<&'v str> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let lists = lists.map(|list| spec.value()[list].as_array());
    let containers = lists.into_iter().flatten().flatten();
    containers
        .filter_map(|container| container["name"].as_str())
        .collect()
}

/// True for a deletion cost in the only spelling that Kubernetes accepts.
fn is_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    text != "-0" && is_plain && text.parse::<i32>().is_ok()
}

fn check_seccomp(key: &str, profile: &Place<'_, '_>, annotations: &Place<'_, '_>, errors: &mut Errors) {
    // This path names the annotation as a field, not as a key.
    let place = annotations.field(key);
    match profile.text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        text if text.starts_with("localhost/") => check_no_steps_back(&place, errors),
        _ => errors.push(place.invalid("must be a valid seccomp profile")),
    }
}

fn is_app_armor(profile: &str) -> bool {
    matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/")
}
