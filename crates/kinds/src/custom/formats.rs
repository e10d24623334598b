//! Validation of named formats, by the rules of kube-openapi. An unknown format accepts any text, as in Kubernetes.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;
use watchkeeper_meta::validation::{dns1123_label, dns1123_subdomain};
use watchkeeper_wire::values::Duration;

/// True if a text has the format.
pub(crate) fn is_valid(format: &str, text: &str) -> bool {
    match &*format.replace('-', "") {
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => text.parse::<Duration>().is_ok() || is_worded_duration(text),
        "ipv4" => is_ip(text) && text.contains('.'),
        "ipv6" => is_ip(text) && text.contains(':'),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID.is_match(text) && has_uuid_version(text, '3'),
        "uuid4" => UUID.is_match(text) && has_uuid_version(text, '4') && has_uuid_variant(text),
        "uuid5" => UUID.is_match(text) && has_uuid_version(text, '5') && has_uuid_variant(text),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => is_request_uri(text),
        "byte" => BASE64.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "ssn" => SSN.is_match(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "k8sshortname" => dns1123_label(text).is_empty(),
        "k8slongname" => dns1123_subdomain(text).is_empty(),
        _ => true,
    }
}

fn is_date(text: &str) -> bool {
    DATE.is_match(text) && text.parse::<jiff::civil::Date>().is_ok()
}

/// The seconds may not be 60, and nothing limits the offset.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let Some((date, time)) = text.split_once('t') else {
        return false;
    };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|part| part[1] <= *"23" && part[2] <= *"59" && part[3] <= *"59")
}

/// `3 days`: the format knows words besides Go's units. Only one of several parts must have a known unit.
fn is_worded_duration(text: &str) -> bool {
    const EXACT: &[&str] = &["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const STARTS: &[&str] = &["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let mut units = DURATION_PART
        .captures_iter(text)
        .map(|part| part[1].to_lowercase());
    units.any(|unit| EXACT.contains(&&*unit) || STARTS.iter().any(|start| unit.starts_with(start)))
}

/// Leading zeros are accepted, as in early versions of Go.
fn is_ip(text: &str) -> bool {
    match text.find(['.', ':']) {
        Some(at) if text.as_bytes()[at] == b'.' => is_ipv4(text),
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

fn is_ipv4(text: &str) -> bool {
    let without_zeros = text.split('.').map(|part| match part.trim_start_matches('0') {
        "" if part.is_empty() => None,
        "" => Some("0"),
        digits => Some(digits),
    });
    let parts: Option<Vec<&str>> = without_zeros.collect();
    parts.is_some_and(|parts| parts.join(".").parse::<Ipv4Addr>().is_ok())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match (is_ipv4(address), address.parse::<Ipv6Addr>()) {
        (true, _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    is_number && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

/// Six, eight or twenty bytes, in pairs of digits or in groups of four.
fn is_mac(text: &str) -> bool {
    let (separator, digits) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let are_hex = groups
        .iter()
        .all(|group| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit()));
    are_hex && matches!(groups.len() * digits / 2, 6 | 8 | 20)
}

fn uuid_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|digit| *digit != '-')
}

fn has_uuid_version(text: &str, version: char) -> bool {
    uuid_digits(text).nth(12) == Some(version)
}

fn has_uuid_variant(text: &str) -> bool {
    uuid_digits(text)
        .nth(16)
        .is_some_and(|digit| "89abAB".contains(digit))
}

fn is_hostname(text: &str) -> bool {
    HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
}

/// An address, or a name and an address in angle brackets. Comments and groups are not known here.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    match text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        Some((name, address)) => DISPLAY_NAME.is_match(name.trim()) && EMAIL.is_match(address),
        None => EMAIL.is_match(text),
    }
}

/// An absolute URI or path, as Go reads it in a request.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|letter| letter.is_ascii_control()) {
        return false;
    }
    let (scheme, rest) = match SCHEME.find(text) {
        Some(found) => text.split_at(found.end()),
        None => ("", text),
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if text == "*" || (!scheme.is_empty() && !rest.starts_with('/')) {
        return true;
    }
    let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            if !AUTHORITY.is_match(authority) {
                return false;
            }
            path
        }
        None if rest.starts_with('/') => rest,
        None => return false,
    };
    !BROKEN_ESCAPE.is_match(&format!("{path} "))
}

fn without_separators(text: &str) -> String {
    text.chars()
        .filter(|letter| *letter != '-' && !letter.is_whitespace())
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_separators(text);
    let value = |digit: char| digit.to_digit(10).unwrap_or(10);
    let sum = || -> u32 {
        (1..)
            .zip(digits.chars())
            .map(|(place, digit)| place * value(digit))
            .sum()
    };
    ISBN10.is_match(&digits) && sum() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = without_separators(text);
    let weighted = digits.chars().filter_map(|digit| digit.to_digit(10));
    let sum = || -> u32 {
        [1, 3]
            .iter()
            .cycle()
            .zip(weighted)
            .map(|(weight, digit)| weight * digit)
            .sum()
    };
    digits.len() == 13 && digits.bytes().all(|byte| byte.is_ascii_digit()) && sum() % 10 == 0
}

/// A number of one of the big networks whose check digit is right.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(10)).collect();
    let number: String = digits.iter().map(u32::to_string).collect();
    let doubled = |(place, digit): (usize, &u32)| match (place % 2, digit * 2) {
        (0, _) => *digit,
        (_, double) => double % 10 + double / 10,
    };
    let sum = || -> u32 { digits.iter().rev().enumerate().map(doubled).sum() };
    CREDIT_CARD.is_match(&number) && sum() % 10 == 0
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("a pattern of the program: {error}"))
}

macro_rules! patterns {
    ($($(#[$about:meta])* $name:ident = $text:expr;)+) => {
        $($(#[$about])* static $name: LazyLock<Regex> = LazyLock::new(|| pattern($text));)+
    };
}

patterns! {
    DATE = r"^\d{4}-\d{2}-\d{2}$";
    TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    DURATION_PART = r"\d+\s*([A-Za-zµ]+)";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    /// One label with at most one dash, or several of which the last has only letters.
    HOSTNAME = concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|",
        r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
        r"([a-zA-Z\p{L}]){2,63})$",
    );
    EMAIL = concat!(
        r#"^([-a-zA-Z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}]+(\.[-a-zA-Z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}]+)*|"#,
        r#""([^"\\\r\n]|\\.)*")@"#,
        r#"([-a-zA-Z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}]+(\.[-a-zA-Z0-9!#$%&'*+/=?^_`{|}~\x{80}-\x{10ffff}]+)*|"#,
        r#"\[[^\[\]\\]*\])$"#,
    );
    DISPLAY_NAME = r#"^("([^"\\]|\\.)*"|[-a-zA-Z0-9!#$%&'*+/=?^_`{|}~.\s\x{80}-\x{10ffff}])*$"#;
    SCHEME = r"^[a-zA-Z][-+.a-zA-Z0-9]*:";
    AUTHORITY = concat!(
        r"^([-a-zA-Z0-9._:~!$&'()*+,;=%@]*@)?",
        r#"(\[[^\]]*\]|[-a-zA-Z0-9_.~!$&'()*+,;=<>"\x{80}-\x{10ffff}]*)(:[0-9]*)?$"#,
    );
    BROKEN_ESCAPE = r"%([^0-9a-fA-F]|[0-9a-fA-F][^0-9a-fA-F])";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = concat!(
        r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,",
        r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
    );
    SSN = r"^\d{3}[- ]?\d{2}[- ]?\d{4}$";
    ISBN10 = r"^(?:[0-9]{9}X|[0-9]{10})$";
    CREDIT_CARD = concat!(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|",
        r"3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, good: &[&str], bad: &[&str]) {
        good.iter()
            .for_each(|text| assert!(is_valid(format, text), "{format} {text}"));
        bad.iter()
            .for_each(|text| assert!(!is_valid(format, text), "{format} {text}"));
    }

    #[test]
    fn times_and_durations() {
        check(
            "date-time",
            &[
                "2020-01-01T00:00:00Z",
                "2020-01-01t23:59:59.5+99:00",
                "2020-01-01T00:00:00,5z",
            ],
            &[
                "yesterday",
                "2020-01-01",
                "2020-01-01T24:00:00Z",
                "2020-01-01T00:00:60Z",
                "2021-02-29T00:00:00Z",
            ],
        );
        check("date", &["2020-02-29"], &["2021-02-29", "2020-1-1"]);
        check(
            "duration",
            &["1h30m", "3 days", "2WK", "1 Hours"],
            &["soon", "", "3 moons"],
        );
    }

    #[test]
    fn addresses() {
        check(
            "ipv4",
            &["1.2.3.4", "010.0.0.1"],
            &["1.2.3", "::1", "1.2.3.256", "1.2.3."],
        );
        check("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4"]);
        check("ipv4", &["::ffff:1.2.3.4"], &[]);
        check(
            "cidr",
            &["10.0.0.0/8", "fd00::/64", "10.00.0.1/08"],
            &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"],
        );
        check(
            "mac",
            &["00:00:5e:00:53:01", "02-00-5e-10-00-00-00-01", "0000.5e00.5301"],
            &["00:00:5e:00:53", "00:00-5e:00:53:01", "x"],
        );
        check(
            "uri",
            &["https://a/b", "/a b", "mailto:a", "http://[::1]:80/?q=%zz", "*"],
            &["a b", "nowhere", "", "http://a b/", "/%zz", "http://a:b/", "::x"],
        );
        check(
            "hostname",
            &["a.example.com", "a", "a-b", "1.example.com"],
            &["-a", "a..b", "a.example.com.", "1.2.3.4", "a-b-c"],
        );
        check(
            "email",
            &["a@b", "A B <a.b@c.d>", "\"a b\"@c", "a@[1.2.3.4]"],
            &["a", "a@", "@b", "a b@c", ".a@b", "a@b c"],
        );
    }

    #[test]
    fn numbers_and_others() {
        let plain = "43123747-d301-4533-8ee7-1747cb5b4d78";
        check("uuid", &[plain, &plain.replace('-', "")], &["43123747"]);
        check("uuid4", &[plain], &["43123747-d301-3533-8ee7-1747cb5b4d78"]);
        check("uuid3", &["43123747-d301-3533-1ee7-1747cb5b4d78"], &[plain]);
        check("uuid5", &["43123747-d301-5533-8ee7-1747cb5b4d78"], &[plain]);
        check("byte", &["YQ==", "YWJj"], &["YQ=", "?", ""]);
        check("hexcolor", &["#fff", "00ff00"], &["#ff"]);
        check("rgbcolor", &["rgb(0, 128,255)"], &["rgb(0,0)", "rgb(0,0,256)"]);
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77"]);
        check("ssn", &["111-22-3333"], &["11-22-3333"]);
        check("isbn", &["0-306-40615-2", "978-0-306-40615-7"], &["0306406153"]);
        check("isbn10", &["080442957X"], &["9780306406157"]);
        check("isbn13", &["9780306406157"], &["9780306406158"]);
        check("creditcard", &["4111 1111 1111 1111"], &["4111111111111112", "1"]);
        check("k8s-short-name", &["a-b"], &["a.b", "A"]);
        check("k8s-long-name", &["a.b"], &["a_b"]);
        check("password", &["anything"], &[]);
        check("nobody-knows", &["anything"], &[]);
    }
}
