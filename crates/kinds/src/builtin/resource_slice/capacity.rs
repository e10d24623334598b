//! Validation of device capacities, and of the policy for sharing one among claims.

use serde_json::Value;
use watchkeeper_wire::values::Quantity;

use crate::rules::devices::check_qualified;
use crate::rules::formats::quantity;
use crate::rules::place::{Errors, Place};

const MAX_OPTIONS: usize = 10;

/// Checks the capacities of a device. Only a shared device may have request policies.
pub(super) fn check_capacities(capacities: &Place<'_, '_>, is_shared: bool, errors: &mut Errors) {
    for (name, capacity) in capacities.entries() {
        check_qualified(name, capacities, errors);
        let policy = capacity.field("requestPolicy");
        match (policy.is_set(), is_shared) {
            (true, true) => check_policy(&policy, &quantity(&capacity.value()["value"]), errors),
            (true, false) => errors.push(policy.forbidden("allowMultipleAllocations must be true")),
            (false, _) => {}
        }
    }
}

/// Checks a request policy: a list of values, or a range.
fn check_policy(policy: &Place<'_, '_>, capacity: &Quantity, errors: &mut Errors) {
    let [values, range, default] = ["validValues", "validRange", "default"].map(|name| policy.field(name));
    match (values.len() > 0, range.is_set()) {
        (true, true) => errors.push(policy.forbidden(
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
        )),
        (true, false) if !default.is_set() => {
            errors.push(default.required("required when validValues is defined"));
        }
        (false, true) if !default.is_set() => {
            errors.push(default.required("required when validRange is defined"));
        }
        (true, false) => check_values(&values, default.value(), capacity, errors),
        (false, true) => check_range(&range, default.value(), capacity, errors),
        (false, false) => {}
    }
}

fn check_values(values: &Place<'_, '_>, default: &Value, capacity: &Quantity, errors: &mut Errors) {
    let amounts: Vec<Quantity> = values.items().map(|value| quantity(value.value())).collect();
    for (value, pair) in values.items().skip(1).zip(amounts.windows(2)) {
        if pair[0] > pair[1] {
            errors.push(value.invalid("values must be sorted in ascending order"));
        }
    }
    if amounts.len() > MAX_OPTIONS {
        errors.push(values.too_many(MAX_OPTIONS));
    } else {
        for (value, amount) in values.items().zip(&amounts) {
            if amount > capacity {
                errors.push(value.invalid(format!("option is larger than capacity value: {capacity}")));
            }
        }
        for (index, value) in values.items().enumerate() {
            if amounts[..index].contains(&amounts[index]) {
                errors.push(value.duplicate());
            }
        }
    }
    if !amounts.contains(&quantity(default)) {
        let why = "default value is not valid according to the requestPolicy";
        errors.push(values.invalid_for(default.clone(), why));
    }
}

fn check_range(range: &Place<'_, '_>, default: &Value, capacity: &Quantity, errors: &mut Errors) {
    let [min, max, step] = ["min", "max", "step"].map(|name| range.field(name));
    if !min.is_set() {
        return errors.push(min.required("required when validRange is defined"));
    }
    let [least, most, wanted] = [min.value(), max.value(), default].map(quantity);
    if least > *capacity {
        errors.push(min.invalid(format!("min is larger than capacity value: {capacity}")));
    }
    if wanted < least {
        let why = format!("default is less than min: {least}");
        errors.push(min.invalid_for(default.clone(), why));
    }
    if max.is_set() {
        if least > most {
            let why = format!("min is larger than max: {most}");
            errors.push(max.invalid_for(min.value().clone(), why));
        }
        if most > *capacity {
            errors.push(max.invalid(format!("max is larger than capacity value: {capacity}")));
        }
        if wanted > most {
            let why = format!("default is more than max: {most}");
            errors.push(max.invalid_for(default.clone(), why));
        }
    }
    if step.is_set() {
        let amounts = [Some(default), max.is_set().then(|| max.value())];
        check_step(&step, &least, amounts.into_iter().flatten(), capacity, errors);
    }
}

/// Checks the step of a range. Values are the minimum plus whole steps.
fn check_step<'v>(
    step: &Place<'_, '_>,
    least: &Quantity,
    amounts: impl Iterator<Item = &'v Value>,
    capacity: &Quantity,
    errors: &mut Errors,
) {
    let size = quantity(step.value());
    let whole = |amount: &Quantity| amount.to_i64().unwrap_or(i64::MAX);
    if size.is_zero() || size.is_negative() {
        return errors.push(step.invalid("must be greater than zero"));
    }
    if let Some(first) = least.checked_add(&size).filter(|first| first > capacity) {
        let why = format!("one step {first} is larger than capacity value: {capacity}");
        errors.push(step.invalid(why));
    }
    for amount in amounts {
        let above = whole(&quantity(amount)).saturating_sub(whole(least));
        if above % whole(&size).max(1) != 0 {
            let why = format!("value is not a multiple of a given step ({size}) from ({least})");
            errors.push(step.invalid_for(amount.clone(), why));
        }
    }
}
