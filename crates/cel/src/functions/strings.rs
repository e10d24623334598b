//! Strings. Indexes count characters.

use super::{Evaluated, Function, Work, lists, must_fit, no_overload, tenth};
use crate::error::EvalError;
use crate::limits::{MAX_MADE_BYTES, MAX_MADE_ITEMS};
use crate::value::Value;

const TEST: &[&str] = &["string.(string) -> bool"];
const SAME: &[&str] = &["string.() -> string"];
const SEARCH: &[&str] = &[
    "string.(string) -> int",
    "string.(string, int) -> int",
    "list(A).(A) -> int",
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("startsWith", TEST, |v, _| {
        test(v, |text, other| text.starts_with(other))
    })
    .costing(|n| tenth(n.of(1)).max(1)),
    Function::new("endsWith", TEST, |v, _| {
        test(v, |text, other| text.ends_with(other))
    })
    .costing(|n| tenth(n.of(1)).max(1)),
    Function::new("contains", TEST, |v, _| {
        test(v, |text, other| text.contains(other))
    })
    .costing(|n| tenth(n.of(0)).saturating_mul(tenth(n.of(1))).max(1)),
    Function::new("charAt", &["string.(int) -> string"], |v, _| {
        let (text, index) = (text(&v[0])?, place(&v[1])?);
        let mut rest = text.chars().skip(index);
        match rest.next() {
            Some(c) => Ok(Value::text(c.to_string())),
            None if text.chars().count() == index => Ok(Value::text("")),
            None => Err(out_of_range(index)),
        }
    })
    .growing(|_| 4),
    Function::new("indexOf", SEARCH, |v, work| match &v[0] {
        Value::List(list) => lists::index_of(list, &v[1], work),
        _ => index_of(v, true),
    })
    .costing(|n| tenth(n.of(0)).max(1)),
    Function::new("lastIndexOf", SEARCH, |v, work| match &v[0] {
        Value::List(list) => lists::last_index_of(list, &v[1], work),
        _ => index_of(v, false),
    })
    .costing(|n| tenth(n.of(0)).max(1)),
    Function::new(
        "join",
        &["list(string).() -> string", "list(string).(string) -> string"],
        |v, work| {
            let Value::List(list) = &v[0] else {
                return no_overload();
            };
            work.steps(list.len() as u64)?;
            let separator = v.get(1).map_or(Ok(""), text)?;
            let items = list.to_vec()?;
            let texts: Result<Vec<&str>, EvalError> = items.iter().map(text).collect();
            let texts = texts?;
            must_fit(
                texts.iter().map(|it| it.len() + separator.len()).sum(),
                MAX_MADE_BYTES,
            )?;
            Ok(Value::text(texts.join(separator)))
        },
    )
    .costing(|n| tenth(n.given.saturating_mul(2)).max(1)),
    Function::new("lowerAscii", SAME, |v, _| {
        Ok(Value::text(text(&v[0])?.to_ascii_lowercase()))
    })
    .costing(|n| tenth(n.of(0)))
    .growing(|n| n[0]),
    Function::new("upperAscii", SAME, |v, _| {
        Ok(Value::text(text(&v[0])?.to_ascii_uppercase()))
    })
    .costing(|n| tenth(n.of(0)))
    .growing(|n| n[0]),
    Function::new("trim", SAME, |v, _| Ok(Value::text(text(&v[0])?.trim())))
        .costing(|n| tenth(n.of(0)))
        .growing(|n| n[0]),
    Function::new(
        "replace",
        &[
            "string.(string, string) -> string",
            "string.(string, string, int) -> string",
        ],
        |v, _| replace(v),
    )
    .costing(|n| tenth(n.of(0).saturating_mul(2)).max(tenth(n.given)))
    .growing(|n| {
        n[0].saturating_add(1)
            .saturating_mul(n[2].max(1))
            .saturating_add(n[0])
    }),
    Function::new(
        "split",
        &[
            "string.(string) -> list(string)",
            "string.(string, int) -> list(string)",
        ],
        split,
    )
    .costing(|n| tenth(n.of(0).saturating_mul(2)))
    .growing(|n| n[0]),
    Function::new(
        "substring",
        &["string.(int) -> string", "string.(int, int) -> string"],
        |v, _| substring(v),
    )
    .costing(|n| tenth(n.of(0)))
    .growing(|n| n[0]),
    Function::new("strings.quote", &["(string) -> string"], |v, _| {
        Ok(Value::text(watchkeeper_meta::quote(text(&v[0])?)))
    })
    .costing(|n| tenth(n.of(0)))
    .growing(|n| n[0].saturating_mul(2).saturating_add(2)),
];

pub(super) fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, EvalError> {
    value.as_str().ok_or(EvalError::NoSuchOverload)
}

fn test<'a>(v: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Evaluated<'a> {
    Ok(Value::Bool(holds(text(&v[0])?, text(&v[1])?)))
}

fn out_of_range(index: impl std::fmt::Display) -> EvalError {
    EvalError::failed(format!("index out of range: {index}"))
}

/// An index into a text, in characters.
fn place(value: &Value<'_>) -> Result<usize, EvalError> {
    match value {
        Value::Int(index) => usize::try_from(*index).map_err(|_| out_of_range(index)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The byte offset of a character; the end of the text is valid too.
fn byte_at(text: &str, index: usize) -> Option<usize> {
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.nth(index)
}

fn index_of<'a>(v: &[Value<'a>], is_first: bool) -> Evaluated<'a> {
    let (whole, wanted) = (text(&v[0])?, text(&v[1])?);
    let limit = v.get(2).map(place).transpose()?;
    let limit = match limit {
        None => None,
        Some(index) => Some(byte_at(whole, index).ok_or_else(|| out_of_range(index))?),
    };
    let found = match (is_first, limit) {
        (true, from) => {
            let from = from.unwrap_or(0);
            whole[from..].find(wanted).map(|at| at + from)
        }
        (false, None) => whole.rfind(wanted),
        (false, Some(last)) => {
            let end = (last + wanted.len()).min(whole.len());
            // A cut within a character moves to its start.
            let end = (0..=end)
                .rev()
                .find(|at| whole.is_char_boundary(*at))
                .unwrap_or(0);
            whole[..end].rfind(wanted)
        }
    };
    let characters = found.map(|at| whole[..at].chars().count() as i64);
    Ok(Value::Int(characters.unwrap_or(-1)))
}

fn replace<'a>(v: &[Value<'a>]) -> Evaluated<'a> {
    let (whole, old, new) = (text(&v[0])?, text(&v[1])?, text(&v[2])?);
    let most = match v.get(3) {
        None => usize::MAX,
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
        Some(_) => return no_overload(),
    };
    let count = whole.matches(old).take(most).count();
    let most_made = whole.len().saturating_add(count.saturating_mul(new.len()));
    must_fit(most_made, MAX_MADE_BYTES)?;
    Ok(Value::text(whole.replacen(old, new, most)))
}

fn split<'a>(v: &[Value<'a>], work: &Work<'_>) -> Evaluated<'a> {
    let (whole, separator) = (text(&v[0])?, text(&v[1])?);
    let most = match v.get(2) {
        None => usize::MAX,
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
        Some(_) => return no_overload(),
    };
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    match separator {
        "" => {
            let ends = whole.char_indices().map(|(at, c)| (at, at + c.len_utf8()));
            let parts = ends.enumerate().take(most).map(|(index, (start, end))| {
                let end = if index + 1 == most { whole.len() } else { end };
                &whole[start..end]
            });
            texts(parts, work)
        }
        separator => texts(whole.splitn(most, separator), work),
    }
}

/// A list of parts of a text.
pub(super) fn texts<'a, 't>(parts: impl Iterator<Item = &'t str>, work: &Work<'_>) -> Evaluated<'a> {
    let mut made = Vec::new();
    for part in parts {
        work.made(1)?;
        must_fit(made.len() + 1, MAX_MADE_ITEMS)?;
        made.push(Value::text(part));
    }
    Ok(Value::list(made))
}

fn substring<'a>(v: &[Value<'a>]) -> Evaluated<'a> {
    let whole = text(&v[0])?;
    let start = place(&v[1])?;
    let from = byte_at(whole, start).ok_or_else(|| out_of_range(start))?;
    let to = match v.get(2) {
        None => whole.len(),
        Some(end) => {
            let end = place(end)?;
            if end < start {
                let why = format!("invalid substring range. start: {start}, end: {end}");
                return Err(EvalError::failed(why));
            }
            byte_at(whole, end).ok_or_else(|| out_of_range(end))?
        }
    };
    Ok(Value::text(&whole[from..to]))
}
