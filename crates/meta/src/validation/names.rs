//! Syntax of names, label keys and label values.
//!
//! Each rule is a loop over bytes, because label keys are checked on every write and in every selector.

/// The regular expressions appear in messages only; the loops below accept exactly the same texts.
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const QUALIFIED_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_NAME_EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];

/// The longest DNS label, and the longest name part of a label key and label value.
const MAX_LABEL: usize = 63;
/// The longest DNS name.
const MAX_SUBDOMAIN: usize = 253;

/// The unit of a length limit in messages: Kubernetes uses both.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Characters,
}

/// The syntax of the names of a resource's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NameRule {
    /// Most resources.
    #[default]
    Dns1123Subdomain,
    /// Namespaces and services.
    Dns1123Label,
    /// A DNS label that starts with a letter.
    Dns1035Label,
    /// Roles and bindings.
    PathSegment,
    /// DNS subdomains, by a declarative rule: it checks names, but not `generateName`.
    DeclaredSubdomain,
    /// Names that depend on the rest of the object: the kind checks them. Here only their presence is.
    OfKind,
}

impl NameRule {
    /// The reasons a name is invalid.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Dns1123Subdomain => dns1123_subdomain(name),
            Self::Dns1123Label => dns1123_label(name),
            Self::Dns1035Label => dns1035_label(name),
            Self::PathSegment => path_segment_name(name),
            Self::DeclaredSubdomain => long_name(name),
            Self::OfKind => Vec::new(),
        }
    }

    /// The reasons a `generateName` is invalid. It may end with a dash, because a suffix follows.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        match (self, prefix.strip_suffix('-')) {
            (Self::PathSegment, _) => forbidden_in_paths(prefix),
            (Self::DeclaredSubdomain | Self::OfKind, _) => Vec::new(),
            (_, Some(rest)) if !rest.is_empty() => {
                // Kubernetes replaces the dash and the character before it with a letter.
                let mut masked = rest.to_owned();
                masked.pop();
                masked.push('a');
                self.check(&masked)
            }
            _ => self.check(prefix),
        }
    }
}

/// A DNS label: names of namespaces, containers, service ports.
pub fn dns1123_label(value: &str) -> Vec<String> {
    label(value, Unit::Characters)
}

/// A DNS label, by a declarative rule: its limit is in bytes.
pub fn short_name(value: &str) -> Vec<String> {
    label(value, Unit::Bytes)
}

fn label(value: &str, unit: Unit) -> Vec<String> {
    let mut reasons = too_long(value, MAX_LABEL, unit);
    if is_label(value) {
        return reasons;
    }
    reasons.push(match is_subdomain(value) {
        true => "must not contain dots".to_owned(),
        false => against_regex(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            LABEL,
            &["my-name", "123-abc"],
        ),
    });
    reasons
}

/// A DNS subdomain: names of most objects.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, Unit::Characters)
}

/// A DNS name, by a declarative rule: its limit is in bytes.
pub fn long_name(value: &str) -> Vec<String> {
    subdomain(value, Unit::Bytes)
}

/// A DNS name with capitals, by a declarative rule. The regular expression in the text has none, as in Kubernetes.
pub fn long_name_caseless(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, MAX_SUBDOMAIN, Unit::Bytes);
    if !is_subdomain(&value.to_ascii_lowercase()) {
        reasons.push(against_regex(
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["Example.com"],
        ));
    }
    reasons
}

/// A DNS label that starts with a letter: names of services.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, MAX_LABEL, Unit::Characters);
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        reasons.push(against_regex(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    reasons
}

/// A label or annotation key, or a finalizer: a name with an optional DNS subdomain and slash before it.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut parts = value.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(""), Some(name), None) => {
            reasons.push("prefix part must be non-empty".to_owned());
            name
        }
        (Some(prefix), Some(name), None) => {
            let errors = subdomain(prefix, Unit::Bytes);
            reasons.extend(errors.into_iter().map(|reason| format!("prefix part {reason}")));
            name
        }
        _ => {
            let rule = against_regex(QUALIFIED_NAME_RULE, QUALIFIED_NAME, &QUALIFIED_NAME_EXAMPLES);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    reasons.extend(
        name_part(name)
            .into_iter()
            .map(|reason| format!("name part {reason}")),
    );
    reasons
}

/// The value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut reasons = too_long(value, MAX_LABEL, Unit::Bytes);
    if !value.is_empty() && !is_qualified(value) {
        reasons.push(against_regex(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    reasons
}

/// A name that can be a URL path segment: names of roles and bindings, and the minimum for any name.
pub fn path_segment_name(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    forbidden_in_paths(value)
}

fn forbidden_in_paths(value: &str) -> Vec<String> {
    let forbidden = ['/', '%'].into_iter().filter(|&c| value.contains(c));
    forbidden.map(|c| format!("may not contain '{c}'")).collect()
}

fn subdomain(value: &str, unit: Unit) -> Vec<String> {
    let mut reasons = too_long(value, MAX_SUBDOMAIN, unit);
    if !is_subdomain(value) {
        reasons.push(against_regex(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    reasons
}

fn name_part(name: &str) -> Vec<String> {
    let mut reasons = match name {
        "" => vec!["must be non-empty".to_owned()],
        name => too_long(name, MAX_LABEL, Unit::Bytes),
    };
    if !is_qualified(name) {
        reasons.push(against_regex(
            QUALIFIED_NAME_RULE,
            QUALIFIED_NAME,
            &QUALIFIED_NAME_EXAMPLES,
        ));
    }
    reasons
}

fn is_label(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    has_form(value, inner, |byte| inner(byte) || byte == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified(value: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric();
    has_form(value, inner, |byte| {
        inner(byte) || matches!(byte, b'-' | b'_' | b'.')
    })
}

/// True if the text is not empty, its first and last bytes pass `end` and the others pass `middle`.
fn has_form(value: &str, end: impl Fn(u8) -> bool, middle: impl Fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [only] => end(*only),
        [first, rest @ .., last] => end(*first) && end(*last) && rest.iter().all(|&byte| middle(byte)),
    }
}

fn too_long(value: &str, max: usize, unit: Unit) -> Vec<String> {
    if value.len() <= max {
        return Vec::new();
    }
    let unit = match unit {
        Unit::Bytes => "bytes",
        Unit::Characters => "characters",
    };
    vec![format!("must be no more than {max} {unit}")]
}

/// The two spaces before each `or` are Kubernetes' own.
fn against_regex(rule: &str, regex: &str, examples: &[&str]) -> String {
    let examples = examples
        .iter()
        .map(|example| format!("'{example}'"))
        .collect::<Vec<_>>();
    format!(
        "{rule} (e.g. {}, regex used for validation is '{regex}')",
        examples.join(",  or ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&str) -> Vec<String>, value: &str, reasons: &[&str]) {
        assert_eq!(rule(value), reasons, "{value:?}");
    }

    const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const NAME_PART_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    #[test]
    fn names_are_dns_names() {
        for good in ["a", "0", "a-b", "a.b-c.0"] {
            check(dns1123_subdomain, good, &[]);
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a.-b"] {
            check(dns1123_subdomain, bad, &[SUBDOMAIN_RULE]);
        }
        check(
            dns1123_subdomain,
            &"a".repeat(254),
            &["must be no more than 253 characters"],
        );
    }

    #[test]
    fn labels_have_no_dots() {
        check(dns1123_label, "my-name", &[]);
        check(dns1123_label, "a.b", &["must not contain dots"]);
        check(
            dns1123_label,
            "A",
            &[
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        );
        check(
            dns1123_label,
            &"a".repeat(64),
            &["must be no more than 63 characters"],
        );
        check(dns1035_label, "abc-123", &[]);
        check(
            dns1035_label,
            "1a",
            &[
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            ],
        );
    }

    #[test]
    fn label_keys_are_names_with_an_optional_prefix() {
        for good in ["a", "A_b.c-d", "example.com/MyName", "k8s.io/0"] {
            check(qualified_name, good, &[]);
        }
        check(qualified_name, "bad key", &[NAME_PART_RULE]);
        check(
            qualified_name,
            "",
            &["name part must be non-empty", NAME_PART_RULE],
        );
        check(qualified_name, "/x", &["prefix part must be non-empty"]);
        check(
            qualified_name,
            "Bad.Prefix/x",
            &[&format!("prefix part {SUBDOMAIN_RULE}")],
        );
        check(
            qualified_name,
            &"k".repeat(64),
            &["name part must be no more than 63 bytes"],
        );
        check(
            qualified_name,
            "a/b/c",
            &[
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            ],
        );
    }

    #[test]
    fn label_values_may_be_empty() {
        for good in ["", "x", "My_value.1-2"] {
            check(label_value, good, &[]);
        }
        check(
            label_value,
            "bad value!",
            &[
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        );
        check(label_value, &"v".repeat(64), &["must be no more than 63 bytes"]);
    }

    #[test]
    fn a_prefix_may_end_with_a_dash() {
        for (rule, prefix, good) in [
            (NameRule::Dns1123Subdomain, "x-", true),
            (NameRule::Dns1123Subdomain, "a.", false),
            (NameRule::Dns1123Subdomain, "-", false),
            (NameRule::Dns1123Subdomain, "Bad_", false),
            (NameRule::Dns1035Label, "a-", true),
            (NameRule::Dns1035Label, "1x-", false),
            (NameRule::PathSegment, "..", true),
            (NameRule::PathSegment, "a/", false),
        ] {
            assert_eq!(rule.check_prefix(prefix).is_empty(), good, "{rule:?} {prefix}");
        }
    }

    #[test]
    fn path_segments_stay_in_their_place() {
        for good in ["a", "system:node", "...", "A b"] {
            check(path_segment_name, good, &[]);
        }
        check(path_segment_name, "..", &["may not be '..'"]);
        check(
            path_segment_name,
            "a/b%",
            &["may not contain '/'", "may not contain '%'"],
        );
    }
}
