//! Names of compute resources and where each may be used. Names without a slash are Kubernetes' own; those with a
//! vendor's domain are extended resources.

use watchkeeper_meta::validation::qualified_name;

use crate::rules::formats::quantity;
use crate::rules::place::{Errors, NOT_NEGATIVE, Place};

/// The resources of containers without a vendor's domain.
const OF_CONTAINERS: &[&str] = &["cpu", "ephemeral-storage", "memory"];

/// The resources a quota measures. Those of pods can be limited by scope, see [`is_measured_of_pods`].
const MEASURED: &[&str] = &[
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// Kinds that a quota counts under their own names.
const COUNTED_KINDS: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// Services by type, which a quota also counts.
const COUNTED_SERVICES: &[&str] = &["services.loadbalancers", "services.nodeports"];

/// True if a quota counts a core resource under its plural name.
pub(crate) fn is_counted_kind(plural: &str) -> bool {
    COUNTED_KINDS.contains(&plural)
}

/// True if a quota accepts the name.
pub(crate) fn is_for_quota(name: &str) -> bool {
    is_counted(name) || MEASURED.contains(&name) || is_quota_huge_page(name)
}

/// True if a quota measures compute resources of pods under the name.
pub(crate) fn is_measured_of_pods(name: &str) -> bool {
    let resource = name.rsplit('.').next().unwrap_or_default();
    MEASURED.contains(&name) && matches!(resource, "cpu" | "memory")
}

fn is_counted(name: &str) -> bool {
    is_counted_kind(name) || COUNTED_SERVICES.contains(&name)
}

/// True for Kubernetes' own names.
fn is_standard(name: &str) -> bool {
    is_for_quota(name) || name == "storage"
}

/// True if containers can use it.
fn is_of_containers(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || is_huge_page(name)
}

/// True for huge pages.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name.strip_prefix("requests.").unwrap_or(name))
}

/// True for a vendor's resource.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// True if the resource can be overcommitted.
pub(crate) fn can_be_shared(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Validates the name of a resource.
pub(crate) fn check_name(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = qualified_name(name);
    let is_qualified = reasons.is_empty();
    errors.extend(reasons.into_iter().map(|why| place.invalid_for(name, why)));
    if is_qualified && !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        errors.push(place.invalid_for(name, why));
    }
}

/// Validates the name of a container's resource.
pub(crate) fn check_container_name(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    check_name(name, place, errors);
    if !name.contains('/') && !is_of_containers(name) {
        errors.push(place.invalid_for(name, "must be a standard resource for containers"));
    } else if name.starts_with("requests.") && !is_native(name) {
        errors.push(place.invalid_for(name, "doesn't follow extended resource name standard"));
    }
}

/// Validates the name of a quota's resource.
pub(crate) fn check_quota_name(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    check_name(name, place, errors);
    if !name.contains('/') && !is_for_quota(name) {
        errors.push(place.invalid_for(name, "must be a standard resource for quota"));
    }
}

/// Validates an amount: counts must be integers.
pub(crate) fn check_amount(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    let amount = quantity(place.value());
    if amount.is_negative() {
        errors.push(place.invalid_for(amount.to_string(), NOT_NEGATIVE));
    }
    let is_whole = amount.to_milli().is_none_or(|milli| milli % 1000 == 0);
    if (is_counted(name) || is_extended(name)) && !is_whole {
        errors.push(place.invalid_for(amount.to_string(), "must be an integer"));
    }
}
