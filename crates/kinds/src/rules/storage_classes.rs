//! Storage classes and volume attributes classes: provisioner and parameters.

use watchkeeper_meta::validation::qualified_name;

use crate::rules::place::{Errors, Place};

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;

/// The driver of a class, if it is set. Capitals are accepted; error texts show it in lower case.
pub(crate) fn check_provisioner(provisioner: &Place<'_, '_>, errors: &mut Errors) {
    if !provisioner.text().is_empty() {
        let lower = provisioner.text().to_lowercase();
        let reasons = qualified_name(&lower).into_iter();
        errors.extend(reasons.map(|why| provisioner.invalid_for(&*lower, why)));
    }
}

/// The parameters of a class.
pub(crate) fn check_parameters(parameters: &Place<'_, '_>, errors: &mut Errors) {
    if parameters.len() > MAX_PARAMETERS {
        errors.push(parameters.too_long(MAX_PARAMETERS));
        return;
    }
    let mut size = 0;
    for (name, value) in parameters.entries() {
        if name.is_empty() {
            errors.push(parameters.invalid_for(name, "field can not be empty."));
        }
        size += name.len() + value.text().len();
    }
    if size > MAX_PARAMETER_BYTES {
        errors.push(parameters.too_long(MAX_PARAMETER_BYTES));
    }
}
