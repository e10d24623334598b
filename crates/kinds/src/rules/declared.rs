//! Formats of names that Kubernetes' types declare: their texts differ from those of the same rules in code.

use watchkeeper_meta::validation::{long_name, long_name_caseless};

use crate::rules::devices::{MAX_POOL_NAME, check_identifier};
use crate::rules::place::{Errors, Place};
use crate::rules::volume_sources::MAX_DRIVER_NAME;

/// The name of a driver. Capitals are accepted.
pub(crate) fn check_driver(driver: &Place<'_, '_>, errors: &mut Errors) {
    driver.must_be_set_and_keep(long_name_caseless, errors);
    if driver.text().len() > MAX_DRIVER_NAME {
        errors.push(driver.too_long(MAX_DRIVER_NAME));
    }
}

/// The name of a pool: subdomains separated by slashes.
pub(crate) fn check_pool(name: &Place<'_, '_>, errors: &mut Errors) {
    if name.text().is_empty() {
        return errors.push(name.required(""));
    }
    if name.text().len() > MAX_POOL_NAME {
        errors.push(name.too_long(MAX_POOL_NAME));
    }
    for (index, part) in name.text().split('/').enumerate() {
        match part {
            "" => errors.push(name.invalid(format!("segment {index}: must not be empty"))),
            _ => check_part(part, &format!("segment {index}"), name, errors),
        }
    }
}

/// The name of an attribute with its domain.
pub(crate) fn check_fully_qualified(name: &Place<'_, '_>, errors: &mut Errors) {
    match name.text().split('/').collect::<Vec<_>>()[..] {
        [id] => {
            check_identifier(id, name, errors);
            let why = "a fully qualified name must be a domain and a name separated by a slash";
            errors.push(name.invalid(why));
        }
        [prefix, id] => {
            if prefix.len() > MAX_DRIVER_NAME {
                errors.push(name.too_long(MAX_DRIVER_NAME));
            }
            match prefix {
                "" => errors.push(name.invalid_for("", "prefix must not be empty")),
                _ => check_part(prefix, "prefix", name, errors),
            }
            match id {
                "" => errors.push(name.invalid_for("", "name must not be empty")),
                _ => check_identifier(id, name, errors),
            }
        }
        _ => errors.push(name.invalid("must not contain more than one slash")),
    }
}

fn check_part(part: &str, which: &str, at: &Place<'_, '_>, errors: &mut Errors) {
    let reasons = long_name(part).into_iter();
    errors.extend(reasons.map(|why| at.invalid_for(part, format!("{which}: {why}"))));
}

/// A UUID in lower case.
pub(crate) fn check_uuid(id: &Place<'_, '_>, errors: &mut Errors) {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let parts: Vec<&str> = id.text().split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    if lengths != [8, 4, 4, 4, 12] || !parts.iter().all(|part| part.bytes().all(is_digit)) {
        errors.push(id.invalid("must be a lowercase UUID in 8-4-4-4-12 format"));
    }
}
