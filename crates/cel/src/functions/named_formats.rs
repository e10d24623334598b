//! Named formats: `format.dns1123Label().validate(self.name)` returns the errors, or none.

use std::sync::LazyLock;

use regex::Regex;
use watchkeeper_meta::Time;
use watchkeeper_meta::validation::{
    dns1035_label, dns1123_label, dns1123_subdomain, label_value, qualified_name,
};

use super::operators::optional;
use super::strings::text;
use super::{Evaluated, Function, no_overload, tenth};
use crate::value::{Opaque, Value};

const FORMAT: &[&str] = &["() -> kubernetes.NamedFormat"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "format.named",
        &["(string) -> optional(kubernetes.NamedFormat)"],
        |v, _| {
            let name = text(&v[0])?;
            let found = FORMATS.iter().find(|format| format.name == name);
            Ok(optional(
                found.map(|format| Value::Opaque(Opaque::Format(format))),
            ))
        },
    ),
    Function::new(
        "validate",
        &["kubernetes.NamedFormat.(string) -> optional(list(string))"],
        |v, _| match &v[0] {
            Value::Opaque(Opaque::Format(format)) => {
                let faults = (format.faults)(text(&v[1])?);
                let faults: Vec<Value<'_>> = faults.into_iter().map(Value::text).collect();
                Ok(optional((!faults.is_empty()).then(|| Value::list(faults))))
            }
            _ => no_overload(),
        },
    )
    .costing(|n| tenth(n.of(1)).saturating_mul(30).max(1)),
    Function::new("format.dns1123Label", FORMAT, |_, _| of(0)),
    Function::new("format.dns1123Subdomain", FORMAT, |_, _| of(1)),
    Function::new("format.dns1035Label", FORMAT, |_, _| of(2)),
    Function::new("format.qualifiedName", FORMAT, |_, _| of(3)),
    Function::new("format.dns1123LabelPrefix", FORMAT, |_, _| of(4)),
    Function::new("format.dns1123SubdomainPrefix", FORMAT, |_, _| of(5)),
    Function::new("format.dns1035LabelPrefix", FORMAT, |_, _| of(6)),
    Function::new("format.labelValue", FORMAT, |_, _| of(7)),
    Function::new("format.uri", FORMAT, |_, _| of(8)),
    Function::new("format.uuid", FORMAT, |_, _| of(9)),
    Function::new("format.byte", FORMAT, |_, _| of(10)),
    Function::new("format.date", FORMAT, |_, _| of(11)),
    Function::new("format.datetime", FORMAT, |_, _| of(12)),
];

/// A format and its validation.
#[derive(Debug)]
pub struct NamedFormat {
    pub(crate) name: &'static str,
    faults: fn(&str) -> Vec<String>,
}

static FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", dns1123_label),
    format("dns1123Subdomain", dns1123_subdomain),
    format("dns1035Label", dns1035_label),
    format("qualifiedName", qualified_name),
    format("dns1123LabelPrefix", |text| dns1123_label(&completed(text))),
    format("dns1123SubdomainPrefix", |text| {
        dns1123_subdomain(&completed(text))
    }),
    format("dns1035LabelPrefix", |text| dns1035_label(&completed(text))),
    format("labelValue", label_value),
    format("uri", |text| {
        let is_valid = URI.is_match(text);
        wrong_unless(is_valid, "invalid URI")
    }),
    format("uuid", |text| {
        wrong_unless(UUID.is_match(text), "does not match the UUID format")
    }),
    format("byte", |text| {
        use base64::Engine;
        let decoded = base64::engine::general_purpose::STANDARD.decode(text);
        wrong_unless(decoded.is_ok(), "invalid base64")
    }),
    format("date", |text| {
        let is_valid = text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok();
        wrong_unless(is_valid, "invalid date")
    }),
    format("datetime", |text| {
        let is_valid = text.contains(['T', 't']) && text.parse::<Time>().is_ok();
        wrong_unless(is_valid, "invalid datetime")
    }),
];

const fn format(name: &'static str, faults: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat { name, faults }
}

fn of<'a>(index: usize) -> Evaluated<'a> {
    Ok(Value::Opaque(Opaque::Format(&FORMATS[index])))
}

fn wrong_unless(is_valid: bool, why: &str) -> Vec<String> {
    match is_valid {
        true => Vec::new(),
        false => vec![why.to_owned()],
    }
}

/// Completes a prefix, because a prefix may end with a character that only the middle of a name may have.
fn completed(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) => format!("{rest}a"),
        None => prefix.to_owned(),
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("a pattern of the program: {error}"))
}

static URI: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(/\S*|[a-zA-Z][-+.a-zA-Z0-9]*:\S+)$"));
static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
