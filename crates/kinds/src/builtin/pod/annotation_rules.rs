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

/// A profile that a container or pod may have as a field or as an annotation.
struct Profile {
    field: &'static str,
    /// The name in error texts.
    shown: &'static str,
    /// The annotation values that mean `RuntimeDefault`.
    defaults: &'static [&'static str],
}

const SECCOMP: Profile = Profile {
    field: "seccompProfile",
    shown: "seccomp",
    defaults: &["runtime/default", "docker/default"],
};
const APP_ARMOR_PROFILE: Profile = Profile {
    field: "appArmorProfile",
    shown: "apparmor",
    defaults: &["runtime/default"],
};

/// Checks that profiles of a new pod are the same in annotations and fields, where both are given.
pub(crate) fn check_profiles(annotations: &Place<'_, '_>, spec: &Place<'_, '_>, errors: &mut Errors) {
    if annotations.len() == 0 {
        return;
    }
    let context = spec.field("securityContext");
    let annotation = annotations.value()[SECCOMP_POD].as_str();
    SECCOMP.check(&context.field(SECCOMP.field), annotation, errors);
    each_container(spec, |name, context| {
        let annotation = annotations.value()[format!("{SECCOMP_CONTAINER}{name}")].as_str();
        SECCOMP.check(&context.field(SECCOMP.field), annotation, errors);
    });
    let system = spec.field("os");
    if system.field("name").text() == "windows" {
        return;
    }
    let of_pod = context.field(APP_ARMOR_PROFILE.field).value();
    each_container(spec, |name, context| {
        let annotation = annotations.value()[format!("{APP_ARMOR}{name}")].as_str();
        let own = context.field(APP_ARMOR_PROFILE.field);
        let profile = if own.is_set() { own } else { own.with_value(of_pod) };
        APP_ARMOR_PROFILE.check(&profile, annotation, errors);
    });
}

/// Calls a function with the name and the security context of every container.
fn each_container(spec: &Place<'_, '_>, mut check: impl FnMut(&str, &Place<'_, '_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            check(
                container.field("name").text(),
                &container.field("securityContext"),
            );
        }
    }
}

impl Profile {
    fn check(&self, profile: &Place<'_, '_>, annotation: Option<&str>, errors: &mut Errors) {
        let Some(annotation) = annotation.filter(|_| profile.is_set()) else {
            return;
        };
        let (kind, file) = (profile.field("type"), profile.field("localhostProfile"));
        let (same_kind, same_file) = match kind.text() {
            "Unconfined" => (annotation == "unconfined", true),
            "RuntimeDefault" => (self.defaults.contains(&annotation), true),
            "Localhost" => match annotation.strip_prefix("localhost/") {
                None => (false, true),
                Some(name) => (true, file.is_set() && file.text() == name),
            },
            _ => (true, true),
        };
        let shown = self.shown;
        if !same_kind {
            errors.push(kind.forbidden(format!("{shown} type in annotation and field must match")));
        } else if !same_file {
            errors.push(file.forbidden(format!("{shown} profile in annotation and field must match")));
        }
    }
}
