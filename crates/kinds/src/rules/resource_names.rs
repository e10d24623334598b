//! What can be asked for, limited and counted: the names of resources, and what each of them is for. Names without a
//! slash are Kubernetes' own; those with a vendor's domain before it are extended resources.

use watchkeeper_meta::validation::qualified_name;

use crate::rules::formats::quantity;
use crate::rules::place::{Errors, NOT_NEGATIVE, Place};

/// What a container can have without a vendor's name before it.
const OF_CONTAINERS: &[&str] = &["cpu", "ephemeral-storage", "memory"];

/// What a quota measures. Amounts of pods can be limited for some pods only, see [`is_measured_of_pods`].
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

/// Services of a type, which a quota counts too.
const COUNTED_SERVICES: &[&str] = &["services.loadbalancers", "services.nodeports"];

/// Whether a quota counts objects of a core resource under its plural name.
pub(crate) fn is_counted_kind(plural: &str) -> bool {
    COUNTED_KINDS.contains(&plural)
}

/// Whether a quota knows the name.
pub(crate) fn is_for_quota(name: &str) -> bool {
    is_counted(name) || MEASURED.contains(&name) || is_quota_huge_page(name)
}

/// Whether what a quota measures under the name is about pods that compute.
pub(crate) fn is_measured_of_pods(name: &str) -> bool {
    let resource = name.rsplit('.').next().unwrap_or_default();
    MEASURED.contains(&name) && matches!(resource, "cpu" | "memory")
}

fn is_counted(name: &str) -> bool {
    is_counted_kind(name) || COUNTED_SERVICES.contains(&name)
}

/// Whether Kubernetes gives the name a meaning anywhere.
fn is_standard(name: &str) -> bool {
    is_for_quota(name) || name == "storage"
}

/// Whether containers can have it.
fn is_of_containers(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || is_huge_page(name)
}

/// Memory in big pages.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name.strip_prefix("requests.").unwrap_or(name))
}

/// A vendor's resource.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether pods can be promised more than there is.
pub(crate) fn can_be_shared(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Checks the name of what stands at a place.
pub(crate) fn check_name(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = qualified_name(name);
    let is_qualified = reasons.is_empty();
    errors.extend(reasons.into_iter().map(|why| place.invalid_for(name, why)));
    if is_qualified && !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        errors.push(place.invalid_for(name, why));
    }
}

/// Checks the name of what a container has.
pub(crate) fn check_container_name(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    check_name(name, place, errors);
    if !name.contains('/') && !is_of_containers(name) {
        errors.push(place.invalid_for(name, "must be a standard resource for containers"));
    } else if name.starts_with("requests.") && !is_native(name) {
        errors.push(place.invalid_for(name, "doesn't follow extended resource name standard"));
    }
}

/// Checks the name of what a quota limits.
pub(crate) fn check_quota_name(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    check_name(name, place, errors);
    if !name.contains('/') && !is_for_quota(name) {
        errors.push(place.invalid_for(name, "must be a standard resource for quota"));
    }
}

/// Checks an amount: of what is counted, there are no halves.
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
