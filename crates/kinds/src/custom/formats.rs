//! Validation of named formats. An unknown format accepts any text, as in Kubernetes.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;
use watchkeeper_meta::Time;
use watchkeeper_wire::values::Duration;

/// True if a text has the format.
pub(crate) fn is_valid(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "duration" => text.parse::<Duration>().is_ok() || WORDED_DURATION.is_match(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => MAC.is_match(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => UUID.is_match(text),
        "hostname" => HOSTNAME.is_match(text) && text.len() <= 253,
        "email" => EMAIL.is_match(text),
        "uri" => URI.is_match(text),
        "byte" => BASE64.is_match(text) && text.len().is_multiple_of(4),
        "hexcolor" => HEX_COLOR.is_match(text),
        "creditcard" => text.bytes().filter(u8::is_ascii_digit).count() >= 13,
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    text.contains(['T', 't']) && text.parse::<Time>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let bits: Option<u8> = bits.parse().ok();
    let most = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    bits.is_some_and(|bits| bits <= most)
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("a pattern of the program: {error}"))
}

/// `3 days`: the format knows words besides Go's units.
static WORDED_DURATION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(\d+\s*(ns|us|µs|ms|s|m|h|d|w|seconds?|minutes?|hours?|days?|weeks?)\s*)+$"));
static MAC: LazyLock<Regex> = LazyLock::new(|| pattern(r"^([0-9a-fA-F]{2}[:-]){5,7}[0-9a-fA-F]{2}$"));
static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*\.?$",
    )
});
static EMAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[^@\s<>]+@[^@\s<>]+$"));
static URI: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(/\S*|[a-zA-Z][-+.a-zA-Z0-9]*:\S+)$"));
static BASE64: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[A-Za-z0-9+/]*={0,2}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_and_rejects_texts() {
        let check = |format, good: &[&str], bad: &[&str]| {
            good.iter()
                .for_each(|text| assert!(is_valid(format, text), "{format} {text}"));
            bad.iter()
                .for_each(|text| assert!(!is_valid(format, text), "{format} {text}"));
        };
        check(
            "date-time",
            &["2020-01-01T00:00:00Z"],
            &["yesterday", "2020-01-01"],
        );
        check("date", &["2020-02-29"], &["2021-02-29", "2020-1-1"]);
        check("duration", &["1h30m", "3 days"], &["soon", ""]);
        check("ipv4", &["1.2.3.4"], &["1.2.3", "::1"]);
        check("ipv6", &["::1"], &["1.2.3.4"]);
        check("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]);
        check("uuid", &["43123747-d301-4533-8ee7-1747cb5b4d78"], &["43123747"]);
        check("uri", &["https://a/b", "/a"], &["a b", "nowhere"]);
        check("hostname", &["a.example.com"], &["-a", "a..b"]);
        check("byte", &["YQ==", ""], &["YQ=", "?"]);
        check("nobody-knows", &["anything"], &[]);
    }
}
