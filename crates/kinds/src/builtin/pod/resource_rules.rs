//! Validation of requests, limits and claims, of containers and of a pod as a whole.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;
use watchkeeper_meta::FieldError;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use watchkeeper_wire::values::Quantity;

use super::quota;
use crate::rules::formats::quantity;
use crate::rules::go_structs;
use crate::rules::place::{Errors, Place};
use crate::rules::resource_names::{can_be_shared, check_amount, check_container_name, is_huge_page};

/// The resources that can be set for a pod as a whole, besides huge pages.
const OF_PODS: &[&str] = &["cpu", "memory"];

/// Checks the resources of a container.
pub(crate) fn check_resources(resources: &Place<'_, '_>, claims: &BTreeSet<&str>, errors: &mut Errors) {
    check_requirements(resources, check_container_name, errors);
    check_claim_names(&resources.field("claims"), claims, errors);
}

/// Checks limits without requests.
pub(crate) fn check_limits(limits: &Place<'_, '_>, errors: &mut Errors) {
    for (name, limit) in limits.entries() {
        check_container_name(name, &limit, errors);
        check_amount(name, &limit, errors);
        check_pages(name, &limit, errors);
    }
}

/// Checks the resources of a pod as a whole.
pub(crate) fn check_pod_resources(spec: &Place<'_, '_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    let claims = resources.field("claims");
    if claims.is_set() {
        errors.push(claims.forbidden("claims cannot be set for Resources at pod-level"));
    }
    check_requirements(&resources, check_pod_name, errors);
    check_against_containers(spec, &resources, errors);
}

/// Checks that a pod requests what its containers need together, and that none may use more than the pod.
fn check_against_containers(spec: &Place<'_, '_>, resources: &Place<'_, '_>, errors: &mut Errors) {
    let requests = resources.field("requests");
    for (name, needed) in quota::of_containers(spec.value(), "requests") {
        let request = requests.entry(&name);
        let (asked, needed) = (quantity_or_zero(&request), quantity(&needed));
        if quota::is_of_pods(&name) && needed > asked {
            let why = format!("must be greater than or equal to aggregate container requests of {needed}");
            errors.push(request.invalid_for(asked.to_string(), why));
        }
    }
    let limits = resources.field("limits");
    // As in Kubernetes, these paths are below the resources of the pod.
    let containers = resources
        .field("containers")
        .with_value(spec.field("containers").value());
    for container in containers.items() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let most = limits.entry(name);
            if most.is_set() && quantity(limit.value()) > quantity(most.value()) {
                let why = format!(
                    "must be less than or equal to pod limits of {}",
                    quantity(most.value())
                );
                let place = container.entry(name);
                let place = place.field("limits");
                errors.push(place.invalid_for(quantity(limit.value()).to_string(), why));
            }
        }
    }
}

fn quantity_or_zero(amount: &Place<'_, '_>) -> Quantity {
    match amount.is_set() {
        true => quantity(amount.value()),
        false => quantity(&Value::from(0)),
    }
}

fn check_pod_name(name: &str, place: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = qualified_name(name);
    if !reasons.is_empty() {
        errors.extend(reasons.into_iter().map(|why| place.invalid_for(name, why)));
    } else if !OF_PODS.contains(&name) && !is_huge_page(name) {
        errors.push(FieldError::not_supported(&place.path(), name, OF_PODS));
    }
}

type NameRule = fn(&str, &Place<'_, '_>, &mut Errors);

fn check_requirements(resources: &Place<'_, '_>, check_name: NameRule, errors: &mut Errors) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for (name, limit) in limits.entries() {
        check_name(name, &limit, errors);
        check_amount(name, &limit, errors);
        check_pages(name, &limit, errors);
    }
    for (name, request) in requests.entries() {
        check_name(name, &request, errors);
        check_amount(name, &request, errors);
        check_against_limit(name, &request, &requests, &limits, errors);
        check_pages(name, &request, errors);
    }
    let names = || limits.entries().chain(requests.entries()).map(|(name, _)| name);
    let computes = names().any(|name| matches!(name, "cpu" | "memory"));
    if names().any(is_huge_page) && !computes {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

/// Checks a request: at most the limit, and equal to it for a resource that cannot be overcommitted.
fn check_against_limit(
    name: &str,
    request: &Place<'_, '_>,
    requests: &Place<'_, '_>,
    limits: &Place<'_, '_>,
    errors: &mut Errors,
) {
    let limit = &limits.value()[name];
    if limit.is_null() {
        if !can_be_shared(name) {
            errors.push(limits.required("Limit must be set for non overcommitable resources"));
        }
        return;
    }
    let (asked, most) = (quantity(request.value()), quantity(limit));
    let rule = match asked.cmp(&most) {
        order if order.is_ne() && !can_be_shared(name) => "equal to",
        order if order.is_gt() => "less than or equal to",
        _ => return,
    };
    let why = format!("must be {rule} {name} limit of {most}");
    errors.push(requests.invalid_for(asked.to_string(), why));
}

/// Checks that an amount of huge pages is a multiple of the page size.
fn check_pages(name: &str, amount: &Place<'_, '_>, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else {
        return;
    };
    let value = quantity(amount.value());
    let milli = |amount: &Quantity| amount.to_milli().filter(|milli| *milli > 0);
    let size = size.parse::<Quantity>().ok().and_then(|size| milli(&size));
    let is_multiple = milli(&value)
        .zip(size)
        .is_some_and(|(value, size)| value % size == 0);
    if !is_multiple {
        let why = format!("{value} is not positive integer multiple of {name}");
        errors.push(amount.invalid_for(value.to_string(), why));
    }
}

/// Checks the resource claims of a pod, and returns their names.
pub(crate) fn check_claims<'v>(claims: &Place<'v, '_>, errors: &mut Errors) -> BTreeSet<&'v str> {
    let mut names = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.field("name");
        match name.text() {
            "" => errors.push(name.required("")),
            text if names.contains(text) => errors.push(name.duplicate()),
            _ => name.must_keep(dns1123_label, errors),
        }
        names.insert(name.text());
        let (direct, template) = (
            claim.field("resourceClaimName"),
            claim.field("resourceClaimTemplateName"),
        );
        let why = match (direct.is_set(), template.is_set()) {
            (true, true) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            (false, false) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !why.is_empty() {
            let shown = go_structs::structure("PodResourceClaim", claim.value());
            errors.push(claim.invalid_in_go(shown, why));
        }
        for name in [direct, template] {
            if name.is_set() {
                name.must_keep(dns1123_subdomain, errors);
            }
        }
    }
    names.remove("");
    names
}

fn check_claim_names(claims: &Place<'_, '_>, known: &BTreeSet<&str>, errors: &mut Errors) {
    // The requests of each claim; an empty one is all of them.
    let mut seen: HashMap<&str, HashSet<&str>> = HashMap::new();
    for claim in claims.items() {
        let name = claim.field("name").text();
        if name.is_empty() {
            errors.push(claim.required(""));
            continue;
        }
        let request = claim.field("request");
        let part = request.text();
        let parts = seen.entry(name).or_default();
        let is_all = part.is_empty() && !parts.is_empty();
        if is_all || parts.contains("") || parts.contains(part) {
            errors.push(FieldError::duplicate(&claim.path(), name));
        } else {
            request.may_keep(dns1123_label, errors);
        }
        parts.insert(part);
        if !known.contains(name) {
            errors.push_with(|| unknown_claim(&claim, known));
        }
    }
}

/// The error of a claim that the pod does not have. It shows all that it has.
fn unknown_claim(claim: &Place<'_, '_>, known: &BTreeSet<&str>) -> FieldError {
    let mut error = FieldError::not_found(&claim.path(), claim.field("name").text());
    error.detail = match known.is_empty() {
        true => "must be one of the names in pod.spec.resourceClaims which is empty".to_owned(),
        false => {
            let known: Vec<&str> = known.iter().copied().collect();
            format!(
                "must be one of the names in pod.spec.resourceClaims: {}",
                known.join(", ")
            )
        }
    };
    error
}
