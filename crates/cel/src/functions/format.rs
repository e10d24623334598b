//! `'%s has %d'.format([name, count])`.

use super::conversions::plain_text;
use super::{Function, must_fit, no_overload, tenth};
use crate::error::EvalError;
use crate::limits::{MAX_MADE_BYTES, MAX_PRECISION};
use crate::value::{List, Value};

pub(super) const FUNCTIONS: &[Function] =
    &[
        Function::new("format", &["string.(list(dyn)) -> string"], |v, work| {
            match (&v[0], &v[1]) {
                (Value::String(template), Value::List(list)) => {
                    let mut out = String::new();
                    let written = format(template, list, &mut out);
                    if !matches!(written, Ok(()) | Err(EvalError::CostExceeded)) {
                        // The cost counts the result, and there is none.
                        work.steps(out.len() as u64)?;
                    }
                    written.map(|()| Value::text(out))
                }
                _ => no_overload(),
            }
        })
        .costing(|n| tenth(n.of(0)).max(tenth(n.given)))
        .growing(|n| n[0].saturating_add(n[1].saturating_mul(64))),
    ];

fn format(template: &str, values: &List<'_>, out: &mut String) -> Result<(), EvalError> {
    let mut taken = 0;
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        let (precision, behind) = precision(rest)?;
        let Some(clause) = behind.chars().next() else {
            return Err(EvalError::failed("unexpected end of string"));
        };
        rest = &behind[clause.len_utf8()..];
        let Some(value) = values.get(taken).transpose()? else {
            return Err(EvalError::failed(format!("index {taken} out of range")));
        };
        taken += 1;
        let text = write(clause, precision, &value)?;
        must_fit(out.len() + text.len(), MAX_MADE_BYTES)?;
        out.push_str(&text);
    }
    out.push_str(rest);
    Ok(())
}

fn precision(text: &str) -> Result<(Option<usize>, &str), EvalError> {
    let Some(digits) = text.strip_prefix('.') else {
        return Ok((None, text));
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let found = digits[..end].parse().unwrap_or(usize::MAX);
    if found > MAX_PRECISION {
        return Err(EvalError::failed(format!(
            "precision must be at most {MAX_PRECISION}"
        )));
    }
    Ok((Some(found), &digits[end..]))
}

fn write(clause: char, precision: Option<usize>, value: &Value<'_>) -> Result<String, EvalError> {
    let unfit = |wanted: &str| {
        let found = value.type_of().plain_name();
        EvalError::failed(format!("{wanted}, was given {found}"))
    };
    Ok(match (clause, value) {
        ('s', value) => plain_text(value)?,
        ('d', Value::Int(_) | Value::Uint(_)) => plain_text(value)?,
        ('d', Value::Double(number)) if !number.is_finite() => plain_text(value)?,
        ('d', _) => {
            return Err(unfit(
                "error during formatting: decimal clause can only be used on integers",
            ));
        }
        ('f', _) => {
            let places = precision.unwrap_or(6);
            let number = number(value).ok_or_else(|| {
                unfit("error during formatting: fixed-point clause can only be used on numbers")
            })?;
            format!("{number:.places$}")
        }
        ('e', _) => {
            let places = precision.unwrap_or(6);
            let number = number(value).ok_or_else(|| {
                unfit("error during formatting: scientific clause can only be used on numbers")
            })?;
            let text = format!("{number:.places$e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', Value::Int(value)) => signed(*value, |it| format!("{it:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('o', Value::Int(value)) => signed(*value, |it| format!("{it:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('x' | 'X', value) => {
            let text = match value {
                Value::Int(value) => signed(*value, |it| format!("{it:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => {
                    return Err(unfit(
                        "error during formatting: only integers, byte buffers, and strings can be formatted as hex",
                    ));
                }
            };
            if clause == 'X' { text.to_uppercase() } else { text }
        }
        ('b' | 'o', _) => {
            return Err(unfit(
                "error during formatting: only integers and bools can be formatted as binary",
            ));
        }
        _ => {
            return Err(EvalError::failed(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
            )));
        }
    })
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        _ => None,
    }
}

fn signed(value: i64, write: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", write(value.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
