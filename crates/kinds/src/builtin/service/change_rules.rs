//! Validation of service updates: above all, cluster IPs are immutable.

use super::is_headless;
use crate::rules::place::{Errors, Place};

/// Checks an update. A change to or from `ExternalName` may add or remove all addresses.
pub(crate) fn check(service: &Place<'_, '_>, live: &Place<'_, '_>, errors: &mut Errors) {
    let (new, old) = (service.field("spec"), live.field("spec"));
    let is_external = |spec: &Place<'_, '_>| spec.field("type").text() == "ExternalName";
    if !is_external(&new) && !is_external(&old) {
        check_addresses(&new, &old, errors);
        check_families(&new, &old, errors);
    }
    check_class(&new, &old, errors);
    check_health_port(&new, &old, errors);
}

fn check_addresses(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let (addresses, before) = (new.field("clusterIPs"), old.field("clusterIPs"));
    let kept: Vec<&str> = before.texts().collect();
    let given: Vec<&str> = addresses.texts().collect();
    let counted = match given.len() == kept.len() {
        true => kept.len(),
        // The primary address is immutable; a secondary one may be added or removed.
        false => kept.len().min(1),
    };
    if given.is_empty() && !kept.is_empty() {
        errors.push(addresses.invalid_item(0, "primary clusterIP can not be unset"));
    }
    for index in 0..counted.min(given.len()) {
        if given[index] != kept[index] {
            errors.push(addresses.invalid_item(index, "may not change once set"));
        }
    }
    if given.len() == 1 && kept.len() > 1 {
        check_single(new, "clusterIP", errors);
    }
}

fn check_families(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    if is_headless(new) || is_headless(old) {
        return;
    }
    let (families, before) = (new.field("ipFamilies"), old.field("ipFamilies"));
    let kept: Vec<&str> = before.texts().collect();
    let given: Vec<&str> = families.texts().collect();
    if given.iter().any(|family| !matches!(*family, "IPv4" | "IPv6")) {
        // Kubernetes refuses unknown families before it compares them.
        return;
    }
    let is_changed = match given.len() == kept.len() {
        true => given != kept,
        false => given
            .first()
            .zip(kept.first())
            .is_some_and(|(new, old)| new != old),
    };
    if is_changed {
        errors.push(families.invalid_item(0, "may not change once set"));
    }
    if given.len() == 1 && kept.len() > 1 {
        check_single(new, "ipFamily", errors);
    }
}

/// Checks that releasing the secondary address comes with `ipFamilyPolicy: SingleStack`.
fn check_single(spec: &Place<'_, '_>, released: &str, errors: &mut Errors) {
    let policy = spec.field("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        let why = format!("must be set to 'SingleStack' when releasing the secondary {released}");
        errors.push(policy.invalid(why));
    }
}

fn check_class(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let is_balanced = |spec: &Place<'_, '_>| spec.field("type").text() == "LoadBalancer";
    let (class, before) = (new.field("loadBalancerClass"), old.field("loadBalancerClass"));
    if is_balanced(new) && is_balanced(old) && class.value() != before.value() {
        errors.push(class.invalid("may not change once set"));
    }
}

fn check_health_port(new: &Place<'_, '_>, old: &Place<'_, '_>, errors: &mut Errors) {
    let has_one = |spec: &Place<'_, '_>| {
        let policy = spec.field("externalTrafficPolicy").text();
        spec.field("type").text() == "LoadBalancer" && policy == "Local"
    };
    let (port, before) = (new.field("healthCheckNodePort"), old.field("healthCheckNodePort"));
    if has_one(new) && has_one(old) && port.number() != before.number() {
        errors.push(port.forbidden("field is immutable"));
    }
}
