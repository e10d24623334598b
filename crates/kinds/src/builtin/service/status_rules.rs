//! Validation of a service's load balancer status.

use std::net::IpAddr;

use watchkeeper_meta::validation::dns1123_subdomain;

use crate::rules::place::{Errors, Place};

/// Checks a status.
pub(crate) fn check(service: &Place<'_, '_>, errors: &mut Errors) {
    let status = service.field("status");
    let balancer = status.field("loadBalancer");
    let points = balancer.field("ingress");
    let is_balanced = service.field("spec").field("type").text() == "LoadBalancer";
    if points.len() > 0 && !is_balanced {
        errors.push(points.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    points.items().for_each(|point| check_point(&point, errors));
}

fn check_point(point: &Place<'_, '_>, errors: &mut Errors) {
    let (ip, mode) = (point.field("ip"), point.field("ipMode"));
    let has_ip = !ip.text().is_empty();
    if has_ip {
        ip.must_be_ip(errors);
    }
    match (has_ip, mode.is_set()) {
        (true, false) => errors.push(mode.required("must be specified when `ip` is set")),
        (false, true) => errors.push(mode.forbidden("may not be specified when `ip` is not set")),
        _ => mode.may_be_one_of(&["Proxy", "VIP"], errors),
    }
    let host = point.field("hostname");
    host.may_keep(dns1123_subdomain, errors);
    if host.text().parse::<IpAddr>().is_ok() {
        errors.push(host.invalid("must be a DNS name, not an IP address"));
    }
}
