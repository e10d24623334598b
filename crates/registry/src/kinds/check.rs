//! Checks that many kinds share, in Kubernetes' words.

use std::net::IpAddr;

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldPath};

/// A text at a pointer; empty when it is not set.
pub(super) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The items of a list at a pointer.
pub(super) fn items<'v>(object: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Sets a field that is not set.
pub(super) fn set_default(object: &mut Value, name: &str, default: impl Into<Value>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let is_unset = fields
        .get(name)
        .is_none_or(|value| value.is_null() || value.as_str() == Some(""));
    if is_unset {
        fields.insert(name.to_owned(), default.into());
    }
}

/// One of a closed set of texts.
pub(super) fn one_of(faults: &mut Vec<FieldError>, path: &FieldPath, value: &str, allowed: &[&str]) {
    if !allowed.contains(&value) {
        faults.push(FieldError::not_supported(path, value, allowed));
    }
}

/// A text that must be there.
pub(super) fn required(faults: &mut Vec<FieldError>, path: &FieldPath, value: &str) {
    if value.is_empty() {
        faults.push(FieldError::required(path, ""));
    }
}

/// A port number.
pub(super) fn port(faults: &mut Vec<FieldError>, path: &FieldPath, number: i64) {
    if !(1..=65_535).contains(&number) {
        faults.push(FieldError::invalid(
            path,
            number,
            "must be between 1 and 65535, inclusive",
        ));
    }
}

/// A number of a port, or the name of one.
pub(super) fn port_or_name(faults: &mut Vec<FieldError>, path: &FieldPath, value: &Value) {
    match value {
        Value::String(name) => {
            faults.extend(
                port_name(name)
                    .into_iter()
                    .map(|why| FieldError::invalid(path, name.as_str(), why)),
            );
        }
        number => port(faults, path, number.as_i64().unwrap_or_default()),
    }
}

/// Why a text is not the name of a port.
pub(super) fn port_name(name: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push("must be no more than 15 characters");
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen");
    }
    problems
}

/// An address.
pub(super) fn ip(faults: &mut Vec<FieldError>, path: &FieldPath, address: &str) -> Option<IpAddr> {
    match parse_ip(address) {
        Ok(parsed) => Some(parsed),
        Err(why) => {
            faults.push(FieldError::invalid(path, address, why));
            None
        }
    }
}

/// An address, or why a text is none.
pub(super) fn parse_ip(text: &str) -> Result<IpAddr, &'static str> {
    let is_mapped = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    match text.parse() {
        Ok(address) if is_mapped(&address) => Err("must not be an IPv4-mapped IPv6 address"),
        Ok(address) => Ok(address),
        Err(_) if without_leading_zeros(text).parse::<IpAddr>().is_ok() => Err("must not have leading 0s"),
        Err(_) => Err("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

/// The decimal numbers of an address as one would write them now.
fn without_leading_zeros(address: &str) -> String {
    let number = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    address.split('.').map(number).collect::<Vec<_>>().join(".")
}

/// An address that means the same machine everywhere.
pub(super) fn not_local(faults: &mut Vec<FieldError>, path: &FieldPath, address: IpAddr) {
    let shown = address.to_string();
    let mut refuse = |why: &str| faults.push(FieldError::invalid(path, shown.as_str(), why));
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    if address.is_unspecified() {
        refuse("may not be unspecified (0.0.0.0 or ::)");
    }
    if address.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if is_link_local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if address.is_multicast() {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// A field that may not change.
pub(super) fn immutable(faults: &mut Vec<FieldError>, path: &FieldPath, new: &Value, old: &Value) {
    if new != old {
        faults.push(FieldError::invalid(path, new.clone(), "field is immutable"));
    }
}
