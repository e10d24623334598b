//! Shared rules for devices: names of pools, drivers and attributes, taints and tolerations.
//!
//! Some rules are declared in Kubernetes' types, others are in its code. Errors of the former come last ([`Found`]).

use std::collections::HashSet;

use serde_json::Value;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use watchkeeper_meta::{BadValue, FieldError};

use crate::Warnings;
use crate::rules::defaulting::fill_empty;
use crate::rules::go_structs::json_of;
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::check_driver;

pub(crate) const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
pub(crate) const MAX_POOL_NAME: usize = 253;
const MAX_ID: usize = 32;
const MAX_BINDING_CONDITIONS: usize = 4;

/// Errors, with those of declared rules after the others.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) errors: Errors,
    pub(crate) declared: Errors,
}

impl Found {
    /// Reports all errors of these rules.
    pub(crate) fn of(rules: impl FnOnce(&mut Self), errors: &mut Errors) {
        let mut found = Self::default();
        rules(&mut found);
        errors.append(found.errors);
        errors.append(found.declared);
    }

    /// Refuses more than `max` items; those present are then not validated.
    pub(crate) fn has_at_most(&mut self, max: usize, list: &Place<'_, '_>) -> bool {
        let fits = list.len() <= max;
        if !fits {
            self.declared.push(list.too_many(max));
        }
        fits
    }

    /// Refuses items with equal keys. The errors show the items as that API type.
    pub(crate) fn must_differ(
        &mut self,
        list: &Place<'_, '_>,
        type_name: &str,
        key: impl Fn(&Value) -> Value,
    ) {
        let mut seen = HashSet::new();
        for item in list.items() {
            if !seen.insert(key(item.value())) {
                let shown = json_of(&format!("resource/v1.{type_name}"), item.value());
                self.declared.push(FieldError {
                    value: BadValue::Printed(shown.into()),
                    ..item.duplicate()
                });
            }
        }
    }

    /// Refuses duplicate texts.
    pub(crate) fn must_be_unique(&mut self, texts: &Place<'_, '_>) {
        let mut seen = HashSet::new();
        let again = texts.items().filter(|text| !seen.insert(text.text()));
        self.declared.extend(again.map(|text| text.duplicate()));
    }
}

/// A DNS label. Unlike elsewhere, an empty one is malformed, not missing.
pub(crate) fn check_label(name: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = dns1123_label(name.text()).into_iter();
    errors.extend(reasons.map(|why| name.invalid_for(name.text(), why)));
}

/// The name of a pool: subdomains separated by slashes.
pub(crate) fn check_pool(name: &Place<'_, '_>, errors: &mut Errors) {
    if name.text().is_empty() {
        return errors.push(name.required(""));
    }
    if name.text().len() > MAX_POOL_NAME {
        errors.push(name.too_long(MAX_POOL_NAME));
    }
    for part in name.text().split('/') {
        let reasons = dns1123_subdomain(part).into_iter();
        errors.extend(reasons.map(|why| name.invalid_for(part, why)));
    }
}

/// The name of an attribute or a capacity: an identifier with an optional domain.
pub(crate) fn check_qualified(name: &str, at: &Place<'_, '_>, errors: &mut Errors) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [id] => check_identifier(id, at, errors),
        [domain, id] => {
            match domain {
                "" => errors.push(at.invalid_for("", "the domain must not be empty")),
                _ => check_driver(&at.with_value(&Value::from(domain)), errors),
            }
            match id {
                "" => errors.push(at.invalid_for("", "the name must not be empty")),
                _ => check_identifier(id, at, errors),
            }
        }
        _ => errors.push(at.invalid_for(name, "must not contain more than one slash")),
    }
}

/// The name of an attribute or a capacity without its domain.
pub(crate) fn check_identifier(id: &str, at: &Place<'_, '_>, errors: &mut Errors) {
    if id.len() > MAX_ID {
        errors.push(at.too_long(MAX_ID));
    }
    let is_first = |first: char| first.is_ascii_alphabetic() || first == '_';
    let is_identifier = id.starts_with(is_first)
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_identifier {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                   alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for \
                   validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.push(at.invalid_for(id, why));
    }
}

/// Sets the time of a taint to now, unless it is set.
pub(crate) fn date_taint(taint: Option<&mut Value>, now: &str) {
    if let Some(taint) = taint {
        fill_empty(taint, "timeAdded", now);
    }
}

/// Validates a taint; an unchanged effect is not validated.
pub(crate) fn check_taint(taint: &Place<'_, '_>, live: Option<&Place<'_, '_>>, found: &mut Found) {
    check_key(&taint.field("key"), &mut found.errors);
    taint.field("value").may_keep(label_value, &mut found.errors);
    let effect = taint.field("effect");
    if live.is_none_or(|live| live.field("effect").text() != effect.text()) {
        effect.must_be_one_of(EFFECTS, &mut found.declared);
    }
}

fn check_key(key: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = qualified_name(key.text()).into_iter();
    errors.extend(reasons.map(|why| key.invalid_for(key.text(), why)));
}

/// Validates tolerations of taints.
pub(crate) fn check_tolerations(tolerations: &Place<'_, '_>, found: &mut Found) {
    for toleration in tolerations.items() {
        toleration
            .field("key")
            .may_keep(qualified_name, &mut found.declared);
        let (operator, value) = (toleration.field("operator"), toleration.field("value"));
        match operator.text() {
            "Exists" if !value.text().is_empty() => {
                let why = "must be empty for operator `Exists`";
                found.errors.push(value.invalid(why));
            }
            "Exists" => {}
            "Equal" => value.may_keep(label_value, &mut found.errors),
            _ => operator.must_be_one_of(&["Equal", "Exists"], &mut found.declared),
        }
        let effect = toleration.field("effect");
        if !effect.text().is_empty() {
            effect.is_one_of(EFFECTS, &mut found.declared);
        }
    }
}

/// Validates the binding conditions and binding failure conditions of a device.
pub(crate) fn check_binding_conditions(device: &Place<'_, '_>, found: &mut Found) {
    let names = ["bindingConditions", "bindingFailureConditions"];
    let [wanted, unwanted] = names.map(|name| device.field(name));
    for list in [&wanted, &unwanted] {
        if found.has_at_most(MAX_BINDING_CONDITIONS, list) {
            list.items()
                .for_each(|condition| check_key(&condition, &mut found.errors));
        }
    }
    let errors = &mut found.errors;
    let all_wanted: HashSet<&str> = wanted.texts().collect();
    for list in [&wanted, &unwanted] {
        let mut seen = HashSet::new();
        for condition in list.items() {
            if !seen.insert(condition.text()) {
                errors.push(condition.duplicate());
            }
            if std::ptr::eq(list, &unwanted) && all_wanted.contains(condition.text()) {
                let why = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(condition.invalid(why));
            }
        }
    }
    for ([name, other], [list, others]) in [
        ([names[0], names[1]], [&wanted, &unwanted]),
        ([names[1], names[0]], [&unwanted, &wanted]),
    ] {
        if list.len() == 0 && others.len() > 0 {
            errors.push(list.invalid(format!("{name} are required to use {other}")));
        }
    }
}

/// Driver parameters: an object of limited size.
pub(crate) fn check_raw(raw: &Place<'_, '_>, max_bytes: Option<usize>, errors: &mut Errors) {
    if !raw.is_set() {
        return errors.push(raw.required(""));
    }
    if let Some(max) = max_bytes.filter(|max| raw.value().to_string().len() > *max) {
        return errors.push(raw.too_long(max));
    }
    if !raw.value().is_object() {
        errors.push(FieldError::invalid(
            &raw.path(),
            "<value omitted>",
            "must be a valid JSON object",
        ));
    }
}

/// Warns of capitals in the name of a driver.
pub(crate) fn warn_of_capitals(driver: &Place<'_, '_>, warnings: &Warnings) {
    let name = driver.text();
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        warnings.add(format!(
            "{}: driver names should be lowercase; {name:?} contains uppercase characters",
            driver.path()
        ));
    }
}
