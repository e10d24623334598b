//! Device claims: defaults and validation.

use std::collections::HashMap;

use serde_json::Value;
use watchkeeper_meta::validation::{dns1123_subdomain, long_name};

use crate::Warnings;
use crate::rules::declared;
use crate::rules::defaulting::{fill_empty, fill_zero, items_mut};
use crate::rules::device_selectors;
use crate::rules::devices::{Found, check_label, check_raw, check_tolerations, warn_of_capitals};
use crate::rules::place::{Errors, Place};

pub(crate) const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
pub(crate) const MAX_CONFIGURATIONS: usize = 32;
pub(crate) const MAX_SELECTORS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
pub(crate) const MAX_PARAMETER_BYTES: usize = 10 * 1024;

const NO_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Sets the defaults of a claim: a request is for one device.
pub(crate) fn fill_claim(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else {
        return;
    };
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            fill_request(exactly);
        }
        items_mut(request, "firstAvailable").for_each(fill_request);
    }
}

fn fill_request(request: &mut Value) {
    fill_empty(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        fill_zero(request, "count", 1);
    }
    for toleration in items_mut(request, "tolerations") {
        fill_empty(toleration, "operator", "Equal");
    }
}

/// The age of a claim. Values that are already stored are not validated again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    New,
    Stored,
}

/// Validates the spec of a claim.
pub(crate) fn check(spec: &Place<'_, '_>, age: Age, errors: &mut Errors) {
    Found::of(|found| check_devices(&spec.field("devices"), age, found), errors);
}

fn check_devices(devices: &Place<'_, '_>, age: Age, found: &mut Found) {
    let names = RequestNames::of(devices.value());
    let requests = devices.field("requests");
    if found.has_at_most(MAX_REQUESTS, &requests) {
        requests
            .items()
            .for_each(|request| check_request(&request, age, found));
        found.must_differ(&requests, "DeviceRequest", |request| request["name"].clone());
    }
    let constraints = devices.field("constraints");
    if found.has_at_most(MAX_CONSTRAINTS, &constraints) {
        constraints
            .items()
            .for_each(|constraint| check_constraint(&constraint, &names, found));
    }
    let configurations = devices.field("config");
    if found.has_at_most(MAX_CONFIGURATIONS, &configurations) {
        for configuration in configurations.items() {
            names.check_all(&configuration.field("requests"), found);
            check_configuration(&configuration, age, found);
        }
    }
}

fn check_request(request: &Place<'_, '_>, age: Age, found: &mut Found) {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    check_label(&request.field("name"), &mut found.errors);
    let (exactly, alternatives) = (request.field("exactly"), request.field("firstAvailable"));
    match (exactly.is_set(), alternatives.len() > 0) {
        (false, false) => found.errors.push(request.required(ONE)),
        (true, true) => {
            let why = format!("{ONE}, but multiple fields are set");
            found.errors.push(request.invalid_for(Value::Null, why));
        }
        (true, false) => {
            exactly
                .field("deviceClassName")
                .must_be_set_and_keep(dns1123_subdomain, &mut found.errors);
            check_wanted(&exactly, age, found);
        }
        (false, true) if found.has_at_most(MAX_ALTERNATIVES, &alternatives) => {
            for alternative in alternatives.items() {
                check_label(&alternative.field("name"), &mut found.errors);
                alternative
                    .field("deviceClassName")
                    .must_be_set_and_keep(long_name, &mut found.declared);
                check_wanted(&alternative, age, found);
            }
            found.must_differ(&alternatives, "DeviceSubRequest", |alternative| {
                alternative["name"].clone()
            });
        }
        (false, true) => {}
    }
}

/// Validates the devices of a request and their number.
fn check_wanted(wanted: &Place<'_, '_>, age: Age, found: &mut Found) {
    check_selectors(&wanted.field("selectors"), age, found);
    let (mode, count) = (wanted.field("allocationMode"), wanted.field("count"));
    match mode.text() {
        "All" if count.number() != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            found.errors.push(count.invalid(why));
        }
        "All" => {}
        "ExactCount" if count.number() <= 0 => {
            let why = "must be greater than zero";
            found.errors.push(count.invalid_for(count.number(), why));
        }
        "ExactCount" => {}
        _ => mode.is_one_of(&["All", "ExactCount"], &mut found.declared),
    }
    check_tolerations(&wanted.field("tolerations"), found);
}

/// Validates the selectors of a request or a class.
pub(crate) fn check_selectors(selectors: &Place<'_, '_>, age: Age, found: &mut Found) {
    if !found.has_at_most(MAX_SELECTORS, selectors) {
        return;
    }
    for selector in selectors.items() {
        let cel = selector.field("cel");
        match age {
            _ if !cel.is_set() => found.errors.push(cel.required("")),
            Age::New => device_selectors::check(&cel.field("expression"), &mut found.errors),
            Age::Stored => {}
        }
    }
}

fn check_constraint(constraint: &Place<'_, '_>, names: &RequestNames<'_>, found: &mut Found) {
    names.check_all(&constraint.field("requests"), found);
    let attributes = ["matchAttribute", "distinctAttribute"].map(|name| constraint.field(name));
    match attributes.iter().find(|attribute| attribute.is_set()) {
        Some(attribute) => declared::check_fully_qualified(attribute, &mut found.declared),
        None => found.errors.push(constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        )),
    }
}

/// Validates the driver configuration of a claim or a class.
pub(crate) fn check_configuration(configuration: &Place<'_, '_>, age: Age, found: &mut Found) {
    let opaque = configuration.field("opaque");
    if !opaque.is_set() {
        return found.errors.push(opaque.required(""));
    }
    declared::check_driver(&opaque.field("driver"), &mut found.declared);
    let limit = (age == Age::New).then_some(MAX_PARAMETER_BYTES);
    check_raw(&opaque.field("parameters"), limit, &mut found.errors);
}

/// Warns of driver names with capitals.
pub(crate) fn warn(configurations: &Place<'_, '_>, warnings: &Warnings) {
    for configuration in configurations.items() {
        warn_of_capitals(&configuration.field("opaque").field("driver"), warnings);
    }
}

/// The requests of a claim, and the alternatives of each.
pub(crate) struct RequestNames<'v>(HashMap<&'v str, Vec<&'v str>>);

impl<'v> RequestNames<'v> {
    /// The names of the requests of a claim.
    pub(crate) fn of(devices: &'v Value) -> Self {
        let list = |value: &'v Value| value.as_array().into_iter().flatten();
        let name = |value: &'v Value| value["name"].as_str().unwrap_or_default();
        let requests = list(&devices["requests"]);
        Self(
            requests
                .map(|request| {
                    (
                        name(request),
                        list(&request["firstAvailable"]).map(name).collect(),
                    )
                })
                .collect(),
        )
    }

    /// Validates a list of references to requests.
    pub(crate) fn check_all(&self, references: &Place<'_, '_>, found: &mut Found) {
        if found.has_at_most(MAX_REQUESTS, references) {
            references
                .items()
                .for_each(|reference| self.check(&reference, &mut found.errors));
            found.must_be_unique(references);
        }
    }

    /// Validates a reference to a request or to one of its alternatives.
    pub(crate) fn check(&self, reference: &Place<'_, '_>, errors: &mut Errors) {
        let parts: Vec<&str> = reference.text().split('/').collect();
        if parts.len() <= 2 {
            for part in &parts {
                check_label(&reference.with_value(&Value::from(*part)), errors);
            }
        }
        let is_known = match parts[..] {
            [request] => self.0.contains_key(request),
            [request, alternative] => self.0.get(request).is_some_and(|all| all.contains(&alternative)),
            _ => false,
        };
        if !is_known {
            errors.push(reference.invalid_for(reference.text(), NO_REQUEST));
        }
    }
}
