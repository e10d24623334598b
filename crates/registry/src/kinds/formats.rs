//! Formats that fields of several kinds share: names, addresses, paths and amounts, in Kubernetes' words.

use std::net::IpAddr;

use serde_json::Value;
use watchkeeper_meta::{FieldError, FieldPath};
use watchkeeper_wire::values::Quantity;

/// A megabyte: what a config map or a secret may hold.
pub(super) const MAX_DATA_BYTES: usize = 1024 * 1024;

/// Each problem of a value as a fault.
pub(super) fn each(
    faults: &mut Vec<FieldError>,
    path: &FieldPath,
    value: &str,
    problems: impl IntoIterator<Item = impl Into<String>>,
) {
    let problems = problems.into_iter();
    faults.extend(problems.map(|why| FieldError::invalid(path, value, why)));
}

/// Why a text cannot be a key of a config map or secret.
pub(super) fn data_key(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(fits) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." | ".." => problems.push(format!("must not be '{key}'")),
        key if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// A range of addresses.
pub(super) fn cidr(faults: &mut Vec<FieldError>, path: &FieldPath, range: &str) -> Option<Cidr> {
    let parsed = Cidr::parse(range);
    if parsed.is_none() {
        let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        faults.push(FieldError::invalid(path, range, why));
    }
    parsed
}

/// Addresses with a common prefix.
pub(super) struct Cidr {
    address: IpAddr,
    prefix_bits: u8,
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix_bits: u8 = bits.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let is_plain =
            bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
        (prefix_bits <= width && is_plain).then_some(Self { address, prefix_bits })
    }

    /// Whether every address of `self` is one of `other`, and not the other way round.
    pub(super) fn is_strictly_within(&self, other: &Self) -> bool {
        let wide = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
            IpAddr::V6(v6) => u128::from(v6),
        };
        let shift = 128 - u32::from(other.prefix_bits);
        let prefix = |address: IpAddr| wide(address).checked_shr(shift).unwrap_or_default();
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.prefix_bits > other.prefix_bits
            && prefix(self.address) == prefix(other.address)
    }
}

/// `example.com/name`.
pub(super) fn domain_prefixed_path(faults: &mut Vec<FieldError>, path: &FieldPath, value: &str) {
    if value.is_empty() {
        faults.push(FieldError::required(path, ""));
        return;
    }
    match value.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            each(
                faults,
                path,
                domain,
                watchkeeper_meta::validation::dns1123_subdomain(domain),
            );
        }
        _ => {
            let why = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
            faults.push(FieldError::invalid(path, value, why));
        }
    }
}

/// A number that may not be negative; a missing one is not.
pub(super) fn not_negative(faults: &mut Vec<FieldError>, path: &FieldPath, value: &Value) {
    if let Some(number) = value.as_i64()
        && number < 0
    {
        faults.push(FieldError::invalid(
            path,
            number,
            "must be greater than or equal to 0",
        ));
    }
}

/// The amount a field holds; zero when it holds none.
pub(super) fn quantity(value: &Value) -> Quantity {
    let zero = || Quantity::new(0, watchkeeper_wire::values::QuantityFormat::DecimalSi);
    match value {
        Value::String(text) => text.parse().unwrap_or_else(|_| zero()),
        value => value.to_string().parse().unwrap_or_else(|_| zero()),
    }
}

/// The entries of a map at a pointer.
pub(super) fn entries<'v>(
    object: &'v Value,
    pointer: &str,
) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_lies_within_another() {
        let within = |inner: &str, outer: &str| {
            let parse = |text| Cidr::parse(text).unwrap();
            parse(inner).is_strictly_within(&parse(outer))
        };
        assert!(within("10.1.2.0/24", "10.1.0.0/16"));
        assert!(within("10.0.0.0/8", "0.0.0.0/0"));
        assert!(!within("10.1.0.0/16", "10.1.0.0/16"));
        assert!(!within("10.2.0.0/24", "10.1.0.0/16"));
        assert!(!within("2001:db8::/64", "0.0.0.0/0"));
    }

    #[test]
    fn a_range_needs_an_address_and_a_length() {
        for text in ["x", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/-1", "/8"] {
            assert!(Cidr::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn base64_is_measured_without_decoding() {
        for (text, bytes) in [("", 0), ("YQ==", 1), ("YWI=", 2), ("YWJj", 3)] {
            assert_eq!(decoded_len(text), bytes, "{text}");
        }
    }
}
