//! Text formats of several kinds: keys, ports, addresses, paths and quantities, with Kubernetes' texts. A rule
//! returns the reasons a text is invalid.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::Value;
use watchkeeper_meta::quote;
use watchkeeper_meta::validation::dns1123_subdomain;
use watchkeeper_wire::values::{Quantity, QuantityFormat};

use crate::Warnings;
use crate::rules::place::{Errors, Place};

/// The largest content of a config map or a secret.
pub(crate) const MAX_DATA_BYTES: usize = 1024 * 1024;

/// The protocols of a port.
pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// The reason, unless the rule is kept.
fn reason(keeps: bool, why: &str) -> Vec<String> {
    if keeps { Vec::new() } else { vec![why.to_owned()] }
}

/// A key of a config map or secret.
pub(crate) fn data_key(key: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let mut reasons = reason(key.len() <= 253, "must be no more than 253 characters");
    reasons.extend(reason(
        !key.is_empty() && key.bytes().all(fits),
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
         'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    ));
    match key {
        "." | ".." => reasons.push(format!("must not be '{key}'")),
        key if key.starts_with("..") => reasons.push("must not start with '..'".to_owned()),
        _ => {}
    }
    reasons
}

/// The decoded length of a base64 text.
pub(crate) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// The name of a port.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rules = [
        (name.len() <= 15, "must be no more than 15 characters"),
        (
            !name.is_empty() && name.bytes().all(fits),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            name.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (!name.contains("--"), "must not contain consecutive hyphens"),
        (
            !name.starts_with('-') && !name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    let broken = rules.iter().filter(|(keeps, _)| !keeps);
    broken.map(|(_, why)| (*why).to_owned()).collect()
}

/// The name of an HTTP header.
pub(crate) fn http_header(name: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    reason(
        !name.is_empty() && name.bytes().all(fits),
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
         validation is '[-A-Za-z0-9]+')",
    )
}

/// A wildcard domain: `*.example.com`.
pub(crate) fn wildcard_domain(host: &str) -> Vec<String> {
    let domain = host.strip_prefix("*.");
    reason(
        domain.is_some_and(|domain| dns1123_subdomain(domain).is_empty()),
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
         lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', \
         regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    )
}

/// A DNS search domain; unlike elsewhere, underscores are allowed.
pub(crate) fn search_domain(domain: &str) -> Vec<String> {
    let is_outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part).as_bytes();
        let inner = |byte: &u8| is_outer(*byte) || matches!(byte, b'-' | b'_');
        part.first().is_some_and(|byte| is_outer(*byte))
            && part.last().is_some_and(|byte| is_outer(*byte))
            && part.iter().all(inner)
    };
    let mut reasons = reason(domain.len() <= 253, "must be no more than 253 characters");
    reasons.extend(reason(
        domain.split('.').all(is_part),
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
    ));
    reasons
}

/// A percentage, as a number.
pub(crate) fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// A percentage.
pub(crate) fn percent_text(text: &str) -> Vec<String> {
    reason(
        percent(text).is_some(),
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used \
         for validation is '[0-9]+%')",
    )
}

/// A number or a percentage, as a number; 0 for anything else.
pub(crate) fn number_or_percent(value: &Value) -> i64 {
    match value {
        Value::String(text) => percent(text).unwrap_or_default(),
        value => value.as_i64().unwrap_or_default(),
    }
}

/// An IP address, or the reason it is invalid.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, &'static str> {
    match text.parse() {
        Ok(address) if is_mapped(&address) => Err("must not be an IPv4-mapped IPv6 address"),
        Ok(address) => Ok(address),
        Err(_) if without_leading_zeros(text).parse::<IpAddr>().is_ok() => Err("must not have leading 0s"),
        Err(_) => Err("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// The address with leading zeros removed.
fn without_leading_zeros(address: &str) -> String {
    let number = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    address.split('.').map(number).collect::<Vec<_>>().join(".")
}

/// Warns of an IPv6 address that is not in its canonical form. Other unusual addresses are errors.
pub(crate) fn warn_of_ip(place: &Place<'_, '_>, warnings: &Warnings) {
    let text = place.text();
    if let Ok(address) = text.parse::<Ipv6Addr>()
        && address.to_string() != text
    {
        let (shown, canonical) = (quote(text), quote(&address.to_string()));
        let path = place.path();
        warnings.add(format!(
            "{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({canonical})"
        ));
    }
}

/// Warns of an IPv6 CIDR that is not in its canonical form.
pub(crate) fn warn_of_cidr(place: &Place<'_, '_>, warnings: &Warnings) {
    let text = place.text();
    let Some((address, bits)) = text.split_once('/') else {
        return;
    };
    if let Ok(parsed) = address.parse::<Ipv6Addr>()
        && parsed.to_string() != address
    {
        let (shown, canonical) = (quote(text), quote(&format!("{parsed}/{bits}")));
        let path = place.path();
        warnings.add(format!(
            "{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({canonical})"
        ));
    }
}

/// Refuses an address that is not valid across machines.
pub(crate) fn check_not_local(place: &Place<'_, '_>, address: IpAddr, errors: &mut Errors) {
    let (is_link_local, is_link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        errors.push(place.invalid(format!("may not be unspecified ({})", place.text())));
    }
    for (is_special, range) in [
        (address.is_loopback(), "loopback range (127.0.0.0/8, ::1/128)"),
        (is_link_local, "link-local range (169.254.0.0/16, fe80::/10)"),
        (
            is_link_multicast,
            "link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ] {
        if is_special {
            errors.push(place.invalid(format!("may not be in the {range}")));
        }
    }
}

/// A CIDR.
pub(crate) struct Cidr {
    address: IpAddr,
    prefix_bits: u8,
}

impl Cidr {
    /// The CIDR of a text, if it is one, and the error in its notation.
    pub(crate) fn parse(text: &str) -> (Option<Self>, Option<&'static str>) {
        let malformed = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        let Some((address, bits)) = text.split_once('/') else {
            return (None, Some(malformed));
        };
        let has_zeros = bits.len() > 1 && bits.starts_with('0');
        let plain = without_leading_zeros(address).parse::<IpAddr>();
        let (Ok(parsed), Ok(prefix_bits)) = (plain, bits.parse::<u8>()) else {
            return (None, Some(malformed));
        };
        let width = if parsed.is_ipv4() { 32 } else { 128 };
        if prefix_bits > width || !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return (None, Some(malformed));
        }
        let range = Self {
            address: parsed,
            prefix_bits,
        };
        let why = if has_zeros || address.parse::<IpAddr>().is_err() {
            Some("must not have leading 0s in IP or prefix length")
        } else if is_mapped(&parsed) {
            Some("must not have an IPv4-mapped IPv6 address")
        } else if range.has_more_bits() {
            Some("must not have bits set beyond the prefix length")
        } else {
            None
        };
        (Some(range), why)
    }

    /// True if the address has bits set beyond the prefix.
    fn has_more_bits(&self) -> bool {
        let beyond = u128::MAX.checked_shr(u32::from(self.prefix_bits));
        wide(self.address) & beyond.unwrap_or_default() != 0
    }

    /// True for IPv4.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// True if `self` is a proper subset of `other`.
    pub(crate) fn is_strictly_within(&self, other: &Self) -> bool {
        let shift = 128 - u32::from(other.prefix_bits);
        let prefix = |address: IpAddr| wide(address).checked_shr(shift).unwrap_or_default();
        self.is_ipv4() == other.is_ipv4()
            && self.prefix_bits > other.prefix_bits
            && prefix(self.address) == prefix(other.address)
    }
}

/// An address as a left-aligned number.
fn wide(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// Refuses anything but `example.com/name`.
pub(crate) fn check_domain_prefixed_path(place: &Place<'_, '_>, errors: &mut Errors) {
    let text = place.text();
    if text.is_empty() {
        errors.push(place.required(""));
        return;
    }
    let Some((domain, path)) = text
        .split_once('/')
        .filter(|(a, b)| !a.is_empty() && !b.is_empty())
    else {
        errors.push(place.invalid(r#"must be a domain-prefixed path (such as "acme.io/foo")"#));
        return;
    };
    let reasons = dns1123_subdomain(domain).into_iter();
    errors.extend(reasons.map(|why| place.invalid_for(domain, why)));
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(fits) {
        let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.push(place.invalid_for(path, why));
    }
}

/// Refuses a path with `..`.
pub(crate) fn check_no_steps_back(path: &Place<'_, '_>, errors: &mut Errors) {
    if path.text().split('/').any(|part| part == "..") {
        errors.push(path.invalid_for(path.text(), "must not contain '..'"));
    }
}

/// Refuses an absolute path, or one with `..`.
pub(crate) fn check_descending(path: &Place<'_, '_>, errors: &mut Errors) {
    if path.text().starts_with('/') {
        errors.push(path.invalid("must be a relative path"));
    }
    check_no_steps_back(path, errors);
}

/// The quantity of a field; zero if unset.
pub(crate) fn quantity(value: &Value) -> Quantity {
    let zero = || Quantity::new(0, QuantityFormat::DecimalSi);
    match value {
        Value::String(text) => text.parse().unwrap_or_else(|_| zero()),
        value => value.to_string().parse().unwrap_or_else(|_| zero()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cidr_is_a_strict_subset_of_a_larger_one() {
        let within = |inner: &str, outer: &str| {
            let parse = |text| Cidr::parse(text).0.unwrap();
            parse(inner).is_strictly_within(&parse(outer))
        };
        assert!(within("10.1.2.0/24", "10.1.0.0/16"));
        assert!(within("10.0.0.0/8", "0.0.0.0/0"));
        assert!(!within("10.1.0.0/16", "10.1.0.0/16"));
        assert!(!within("10.2.0.0/24", "10.1.0.0/16"));
        assert!(!within("2001:db8::/64", "0.0.0.0/0"));
    }

    #[test]
    fn a_cidr_has_an_address_and_a_prefix_length() {
        let malformed = Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        let zeros = Some("must not have leading 0s in IP or prefix length");
        for (text, why) in [
            ("10.0.0.0/8", None),
            ("2001:db8::/64", None),
            ("0.0.0.0/0", None),
            ("::/0", None),
            ("x", malformed),
            ("10.0.0.0", malformed),
            ("10.0.0.0/33", malformed),
            ("10.0.0.0/-1", malformed),
            ("10.0.0.0/+8", malformed),
            ("/8", malformed),
            ("10.0.0.0/08", zeros),
            ("010.0.0.0/8", zeros),
            (
                "10.0.0.1/8",
                Some("must not have bits set beyond the prefix length"),
            ),
            (
                "::ffff:10.0.0.0/104",
                Some("must not have an IPv4-mapped IPv6 address"),
            ),
        ] {
            assert_eq!(Cidr::parse(text).1, why, "{text}");
        }
    }

    #[test]
    fn base64_is_measured_without_decoding() {
        for (text, bytes) in [("", 0), ("YQ==", 1), ("YWI=", 2), ("YWJj", 3)] {
            assert_eq!(decoded_len(text), bytes, "{text}");
        }
    }
}
