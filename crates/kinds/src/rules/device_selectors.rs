//! CEL selectors of devices: environment and validation.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use watchkeeper_cel::{Declared, Environment, Field, Object, Shape, Type};

use crate::rules::place::{Errors, Place};

const MAX_BYTES: usize = 10 * 1024;
const MAX_COST: u64 = 1_000_000;
/// The largest number of attributes and capacities of a device.
const MAX_ENTRIES: u64 = 32;
const MAX_ATTRIBUTE_BYTES: u64 = 64;
const MAX_DRIVER_BYTES: u64 = 63;

/// Validates a selector expression.
pub(crate) fn check(expression: &Place<'_, '_>, errors: &mut Errors) {
    let source = expression.text();
    if source.len() > MAX_BYTES {
        return errors.push(expression.too_long(MAX_BYTES));
    }
    match ENVIRONMENT.compile(source) {
        Err(error) => {
            errors.push(expression.invalid_for(source, format!("compilation failed: {error}")));
        }
        Ok(program) if !matches!(program.result_type(), Type::Bool | Type::Dyn) => {
            let found = program.result_type();
            let why = format!("must evaluate to bool or the unknown type, not {found}");
            errors.push(expression.invalid(why));
        }
        Ok(program) if program.max_cost() > MAX_COST => {
            errors.push(expression.forbidden("too complex, exceeds cost limit"));
        }
        Ok(_) => {}
    }
}

/// A device has a driver, and attributes and capacities by domain and name.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let sized = |shape, max_size| Declared { shape, max_size };
    let by_name = |values: Declared| sized(Shape::Map(Arc::new(values)), MAX_ENTRIES);
    let by_domain = |values| by_name(by_name(values));
    let fields = [
        ("driver", sized(Shape::String, MAX_DRIVER_BYTES)),
        ("attributes", by_domain(sized(Shape::Dyn, MAX_ATTRIBUTE_BYTES))),
        ("capacity", by_domain(Declared::plain(Shape::Dyn))),
        ("allowMultipleAllocations", Declared::plain(Shape::Bool)),
    ];
    let field = |(name, declared): (&str, Declared)| {
        let field = Field {
            name: name.to_owned(),
            declared,
        };
        (name.to_owned(), field)
    };
    let fields: BTreeMap<String, Field> = fields.into_iter().map(field).collect();
    let device = Object {
        name: "kubernetes.DRADevice".to_owned(),
        fields,
    };
    Environment::new().declare("device", Declared::object(device))
});
