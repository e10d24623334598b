//! What is wrong with what containers ask for and may take.

use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::qualified_name;
use watchkeeper_wire::values::Quantity;

use super::super::place::{Faults, NOT_NEGATIVE, Place};

/// What a container can have without a vendor's name before it.
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// Resources that are counted elsewhere: known, but not a container's.
const OF_OTHERS: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "storage",
];

/// Checks the resources of a container.
pub(super) fn check_resources(resources: &Place<'_, '_>, faults: &mut Faults) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for (name, limit) in limits.entries() {
        check_name(name, &limit, faults);
        check_amount(name, &limit, faults);
    }
    for (name, request) in requests.entries() {
        check_name(name, &request, faults);
        check_amount(name, &request, faults);
        check_against_limit(name, &request, &requests, &limits, faults);
    }
}

/// A request is at most the limit; what cannot be shared is limited, and exactly so.
fn check_against_limit(
    name: &str,
    request: &Place<'_, '_>,
    requests: &Place<'_, '_>,
    limits: &Place<'_, '_>,
    faults: &mut Faults,
) {
    let limit = &limits.value()[name];
    let shown = limit.as_str().unwrap_or_default();
    let comparison = quantity(request.text())
        .zip(quantity(shown))
        .map(|(request, limit)| request.cmp(&limit));
    let mut refuse = |rule: &str| {
        let why = format!("must be {rule} {name} limit of {shown}");
        let fault = FieldError::invalid(&requests.path(), request.text(), why);
        faults.push(fault);
    };
    match comparison {
        None if limit.is_null() && !can_be_shared(name) => {
            faults.push(limits.required("Limit must be set for non overcommitable resources"));
        }
        None => {}
        Some(order) if order.is_ne() && !can_be_shared(name) => refuse("equal to"),
        Some(order) if order.is_gt() => refuse("less than or equal to"),
        Some(_) => {}
    }
}

fn check_name(name: &str, place: &Place<'_, '_>, faults: &mut Faults) {
    let invalid = |why: &str| FieldError::invalid(&place.path(), name, why);
    let reasons = qualified_name(name);
    if !reasons.is_empty() {
        faults.extend(reasons.iter().map(|reason| invalid(reason)));
    } else if !name.contains('/') {
        let is_known = is_of_containers(name);
        if !is_known && !OF_OTHERS.contains(&name) && !name.starts_with("requests.") {
            faults.push(invalid("must be a standard resource type or fully qualified"));
        }
        if !is_known {
            faults.push(invalid("must be a standard resource for containers"));
        }
    }
}

fn check_amount(name: &str, place: &Place<'_, '_>, faults: &mut Faults) {
    let Some(amount) = quantity(place.text()) else {
        return;
    };
    if amount.is_negative() {
        faults.push(place.invalid(NOT_NEGATIVE));
    }
    let is_whole = amount.to_milli().is_none_or(|milli| milli % 1000 == 0);
    if is_extended(name) && !is_whole {
        faults.push(place.invalid("must be an integer"));
    }
}

fn is_of_containers(name: &str) -> bool {
    OF_CONTAINERS.contains(&name) || name.starts_with("hugepages-")
}

/// Whether pods can be promised more than there is.
fn can_be_shared(name: &str) -> bool {
    !is_extended(name) && !name.starts_with("hugepages-")
}

/// A vendor's resource.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn quantity(text: &str) -> Option<Quantity> {
    text.parse().ok()
}
