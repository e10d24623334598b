//! Quantities: `quantity('1Gi').isLessThan(quantity('2Gi'))`. Versions have comparison functions of the same names,
//! so those are here for both.

use std::cmp::Ordering;
use std::rc::Rc;

use watchkeeper_wire::values::{Quantity, QuantityFormat};

use super::strings::text;
use super::{Evaluated, Function, no_overload};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

const COMPARED: &[&str] = &[
    "kubernetes.Quantity.(kubernetes.Quantity) -> bool",
    "kubernetes.Semver.(kubernetes.Semver) -> bool",
];
const CHANGED: &[&str] = &[
    "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
    "kubernetes.Quantity.(int) -> kubernetes.Quantity",
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "quantity",
        &["(string) -> kubernetes.Quantity"],
        |v, _| match text(&v[0])?.parse::<Quantity>() {
            Ok(quantity) => Ok(made(quantity)),
            Err(error) => Err(EvalError::failed(error.to_string())),
        },
    )
    .reading(),
    Function::new("isQuantity", &["(string) -> bool"], |v, _| {
        Ok(Value::Bool(text(&v[0])?.parse::<Quantity>().is_ok()))
    })
    .reading(),
    Function::new("sign", &["kubernetes.Quantity.() -> int"], |v, _| {
        let quantity = of(&v[0])?;
        Ok(Value::Int(match (quantity.is_zero(), quantity.is_negative()) {
            (true, _) => 0,
            (_, true) => -1,
            _ => 1,
        }))
    }),
    Function::new("isInteger", &["kubernetes.Quantity.() -> bool"], |v, _| {
        Ok(Value::Bool(whole(of(&v[0])?).is_some()))
    }),
    Function::new("asInteger", &["kubernetes.Quantity.() -> int"], |v, _| {
        whole(of(&v[0])?)
            .map(Value::Int)
            .ok_or_else(|| EvalError::failed("cannot convert value to integer"))
    }),
    Function::new(
        "asApproximateFloat",
        &["kubernetes.Quantity.() -> double"],
        |v, _| Ok(Value::Double(of(&v[0])?.to_f64())),
    ),
    Function::new("isGreaterThan", COMPARED, |v, _| {
        Ok(Value::Bool(ordering(&v[0], &v[1])?.is_gt()))
    }),
    Function::new("isLessThan", COMPARED, |v, _| {
        Ok(Value::Bool(ordering(&v[0], &v[1])?.is_lt()))
    }),
    Function::new(
        "compareTo",
        &[
            "kubernetes.Quantity.(kubernetes.Quantity) -> int",
            "kubernetes.Semver.(kubernetes.Semver) -> int",
        ],
        |v, _| Ok(Value::Int(ordering(&v[0], &v[1])? as i64)),
    ),
    Function::new("add", CHANGED, |v, _| changed(v, Quantity::checked_add)),
    Function::new("sub", CHANGED, |v, _| changed(v, Quantity::checked_sub)),
];

fn made<'a>(quantity: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(Rc::new(quantity)))
}

fn of<'v>(value: &'v Value<'_>) -> Result<&'v Quantity, EvalError> {
    match value {
        Value::Opaque(Opaque::Quantity(quantity)) => Ok(quantity),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The number, if it is an integer.
fn whole(quantity: &Quantity) -> Option<i64> {
    let number = quantity.to_i64()?;
    (Quantity::new(number, QuantityFormat::DecimalSi) == *quantity).then_some(number)
}

fn ordering(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, EvalError> {
    match (a, b) {
        (Value::Opaque(Opaque::Quantity(a)), Value::Opaque(Opaque::Quantity(b))) => Ok(a.cmp(b)),
        (Value::Opaque(Opaque::Semver(a)), Value::Opaque(Opaque::Semver(b))) => Ok(a.cmp(b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn changed<'a>(v: &[Value<'a>], change: fn(&Quantity, &Quantity) -> Option<Quantity>) -> Evaluated<'a> {
    let by = match &v[1] {
        Value::Int(number) => Quantity::new(*number, QuantityFormat::DecimalSi),
        Value::Opaque(Opaque::Quantity(quantity)) => (**quantity).clone(),
        _ => return no_overload(),
    };
    change(of(&v[0])?, &by)
        .map(made)
        .ok_or(EvalError::Overflow("quantity"))
}
