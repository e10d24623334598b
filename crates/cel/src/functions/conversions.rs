//! Type conversions, `size` and `type`.

use watchkeeper_meta::Time;
use watchkeeper_wire::values::Quantity;

use super::time::{parse_duration, parse_timestamp, print_duration, print_timestamp, seconds};
use super::{Evaluated, Function, must_fit, no_overload, tenth};
use crate::error::EvalError;
use crate::limits::MAX_MADE_BYTES;
use crate::value::{Opaque, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "size",
        &[
            "(string) -> int",
            "(bytes) -> int",
            "(list(A)) -> int",
            "(map(A, B)) -> int",
            "string.() -> int",
            "bytes.() -> int",
            "list(A).() -> int",
            "map(A, B).() -> int",
        ],
        |v, _| {
            let size = match &v[0] {
                Value::String(text) => text.chars().count(),
                Value::Bytes(bytes) => bytes.len(),
                Value::List(list) => list.len(),
                Value::Map(map) => map.len(),
                _ => return no_overload(),
            };
            Ok(Value::Int(size as i64))
        },
    ),
    Function::new("type", &["(A) -> type(A)"], |v, _| {
        Ok(Value::Type(v[0].type_of()))
    }),
    Function::new("dyn", &["(A) -> dyn"], |v, _| Ok(v[0].clone())).growing(|n| n[0]),
    Function::new("bool", &["(bool) -> bool", "(string) -> bool"], |v, _| {
        match &v[0] {
            Value::Bool(value) => Ok(Value::Bool(*value)),
            Value::String(text) => match &**text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
                _ => conversion_error(&v[0], "bool"),
            },
            _ => no_overload(),
        }
    }),
    Function::new(
        "int",
        &[
            "(int) -> int",
            "(uint) -> int",
            "(double) -> int",
            "(string) -> int",
            "(timestamp) -> int",
            "(duration) -> int",
        ],
        |v, _| to_int(&v[0]),
    ),
    Function::new(
        "uint",
        &[
            "(uint) -> uint",
            "(int) -> uint",
            "(double) -> uint",
            "(string) -> uint",
        ],
        |v, _| match &v[0] {
            Value::Uint(value) => Ok(Value::Uint(*value)),
            Value::Int(value) => u64::try_from(*value)
                .map(Value::Uint)
                .map_err(|_| EvalError::Overflow("unsigned integer")),
            Value::Double(value) if (0.0..18_446_744_073_709_551_616.0).contains(value) => {
                Ok(Value::Uint(*value as u64))
            }
            Value::Double(_) => Err(EvalError::Overflow("unsigned integer")),
            Value::String(text) => match text.parse() {
                Ok(value) => Ok(Value::Uint(value)),
                Err(_) => conversion_error(&v[0], "uint"),
            },
            _ => no_overload(),
        },
    ),
    Function::new(
        "double",
        &[
            "(double) -> double",
            "(int) -> double",
            "(uint) -> double",
            "(string) -> double",
        ],
        |v, _| match &v[0] {
            Value::Double(value) => Ok(Value::Double(*value)),
            Value::Int(value) => Ok(Value::Double(*value as f64)),
            Value::Uint(value) => Ok(Value::Double(*value as f64)),
            Value::String(text) => match text.parse() {
                Ok(value) => Ok(Value::Double(value)),
                Err(_) => conversion_error(&v[0], "double"),
            },
            _ => no_overload(),
        },
    ),
    Function::new(
        "string",
        &[
            "(string) -> string",
            "(bool) -> string",
            "(int) -> string",
            "(uint) -> string",
            "(double) -> string",
            "(bytes) -> string",
            "(timestamp) -> string",
            "(duration) -> string",
            "(net.IP) -> string",
            "(net.CIDR) -> string",
        ],
        |v, _| to_text(&v[0]),
    )
    .costing(|n| tenth(n.of(0)).max(1))
    .growing(|n| n[0].max(64)),
    Function::new(
        "bytes",
        &["(bytes) -> bytes", "(string) -> bytes"],
        |v, _| match &v[0] {
            Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => no_overload(),
        },
    )
    .costing(|n| tenth(n.of(0)).max(1))
    .growing(|n| n[0]),
    Function::new(
        "timestamp",
        &[
            "(timestamp) -> timestamp",
            "(string) -> timestamp",
            "(int) -> timestamp",
        ],
        |v, _| match &v[0] {
            Value::Timestamp(at) => Ok(Value::Timestamp(*at)),
            Value::String(text) => Ok(Value::Timestamp(parse_timestamp(text)?)),
            Value::Int(seconds) => Time::from_seconds(*seconds)
                .to_utc()
                .map(Value::Timestamp)
                .ok_or(EvalError::Overflow("timestamp")),
            _ => no_overload(),
        },
    ),
    Function::new(
        "duration",
        &[
            "(duration) -> duration",
            "(string) -> duration",
            "(int) -> duration",
        ],
        |v, _| match &v[0] {
            Value::Duration(span) => Ok(Value::Duration(*span)),
            Value::String(text) => Ok(Value::Duration(parse_duration(text)?)),
            Value::Int(nanos) => Ok(Value::Duration(jiff::SignedDuration::from_nanos(*nanos))),
            _ => no_overload(),
        },
    ),
];

fn conversion_error<'a>(value: &Value<'_>, wanted: &str) -> Evaluated<'a> {
    let from = value.type_of();
    Err(EvalError::failed(format!(
        "type conversion error from '{from}' to '{wanted}'"
    )))
}

fn to_int<'a>(value: &Value<'a>) -> Evaluated<'a> {
    let overflow = EvalError::Overflow("integer");
    match value {
        Value::Int(value) => Ok(Value::Int(*value)),
        Value::Uint(value) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow),
        Value::Double(value) if value.abs() < 9_223_372_036_854_775_808.0 => Ok(Value::Int(*value as i64)),
        Value::Double(_) => Err(overflow),
        Value::String(text) => match text.parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => conversion_error(value, "int"),
        },
        Value::Timestamp(at) => Ok(Value::Int(seconds(*at))),
        Value::Duration(span) => i64::try_from(span.as_nanos())
            .map(Value::Int)
            .map_err(|_| overflow),
        _ => no_overload(),
    }
}

fn to_text<'a>(value: &Value<'a>) -> Evaluated<'a> {
    match value {
        Value::String(_) => Ok(value.clone()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => Err(EvalError::failed(
                "invalid UTF-8 in bytes, cannot convert to string",
            )),
        },
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Opaque(Opaque::Ip(_) | Opaque::Cidr(..)) => Ok(Value::text(plain_text(value)?)),
        _ => no_overload(),
    }
}

/// A value as `string` and `format` print it. Values much larger than they look are refused.
pub(crate) fn plain_text(value: &Value<'_>) -> Result<String, EvalError> {
    let mut out = String::new();
    write_text(value, &mut out)?;
    Ok(out)
}

fn write_text(value: &Value<'_>, out: &mut String) -> Result<(), EvalError> {
    match value {
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_text(&item?, out)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (index, entry) in map.entries().enumerate() {
                let (key, value) = entry?;
                out.push_str(if index > 0 { ", " } else { "" });
                write_text(&key, out)?;
                out.push_str(": ");
                write_text(&value, out)?;
            }
            out.push('}');
        }
        Value::Message(message) => {
            out.push_str(message.name);
            out.push('{');
            for (index, (name, value)) in message.fields.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(name);
                out.push_str(": ");
                write_text(value, out)?;
            }
            out.push('}');
        }
        Value::Optional(Some(value)) => {
            out.push_str("optional(");
            write_text(value, out)?;
            out.push(')');
        }
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(&value.to_string()),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Uint(value) => out.push_str(&value.to_string()),
        Value::Double(value) => out.push_str(&double_text(*value)),
        Value::String(text) => out.push_str(text),
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Timestamp(at) => out.push_str(&print_timestamp(*at)),
        Value::Duration(span) => out.push_str(&print_duration(*span)),
        Value::Type(of) => out.push_str(&of.plain_name()),
        Value::Optional(None) => out.push_str("optional.none()"),
        Value::Opaque(opaque) => out.push_str(&opaque_text(opaque)),
    }
    must_fit(out.len(), MAX_MADE_BYTES)
}

fn opaque_text(opaque: &Opaque) -> String {
    match opaque {
        Opaque::Quantity(quantity) => Quantity::to_string(quantity),
        Opaque::Ip(address) => address.to_string(),
        Opaque::Cidr(address, bits) => format!("{address}/{bits}"),
        Opaque::Url(url) => url.to_string(),
        Opaque::Format(format) => format.name.to_owned(),
        Opaque::Semver(version) => version.to_string(),
        // Opaque to expressions.
        Opaque::Check(_) | Opaque::Decision(_) => opaque.type_name().to_owned(),
    }
}

/// A number as Go's `%g` prints it: exponents only for very large or very small numbers.
fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    value.to_string()
}
