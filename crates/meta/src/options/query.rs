//! Query strings: written as Go's `url.Values` writes them, parsed as leniently as Go parses them.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::Status;
use crate::quote::quote;

/// The characters Go escapes in a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Writes a query string. Add parameters in alphabetical order, the order Go clients send.
#[derive(Debug, Default)]
pub struct QueryWriter {
    text: String,
}

impl QueryWriter {
    /// Adds one parameter.
    pub fn push(&mut self, name: &str, value: &str) {
        if !self.text.is_empty() {
            self.text.push('&');
        }
        self.push_escaped(name);
        self.text.push('=');
        self.push_escaped(value);
    }

    /// Adds a parameter unless its value is empty.
    pub fn push_text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.push(name, value);
        }
    }

    /// Adds a parameter if it has a value.
    pub fn push_some(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.push(name, &value.to_string());
        }
    }

    /// Adds `name=true` if the value is true.
    pub fn push_flag(&mut self, name: &str, value: bool) {
        if value {
            self.push(name, "true");
        }
    }

    /// The query string, without the question mark.
    pub fn finish(self) -> String {
        self.text
    }

    fn push_escaped(&mut self, text: &str) {
        for (index, word) in text.split(' ').enumerate() {
            if index > 0 {
                self.text.push('+');
            }
            self.text.extend(utf8_percent_encode(word, ESCAPED));
        }
    }
}

/// The parameters of a query string, in order. Malformed pairs are skipped, as in Go.
#[derive(Debug)]
pub struct QueryParams<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> QueryParams<'a> {
    /// Reads a query string, without its question mark.
    pub fn parse(query: &'a str) -> Self {
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let read = |pair: &'a str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name)?, unescape(value)?))
        };
        Self {
            pairs: pairs.filter_map(read).collect(),
        }
    }

    /// The first value of a parameter.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The first value of a parameter; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.first(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.pairs.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_ref())
    }

    /// A boolean: true for any value but `false` and `0`, also for an empty one.
    pub fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// A boolean that may be unset.
    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        let value = self.first(name)?;
        Some(!value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// An integer; other text is a 400.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        self.first(name).map(parse_int).transpose()
    }
}

/// An integer, or the 400 of a Go server.
fn parse_int(text: &str) -> Result<i64, Status> {
    text.parse::<i64>().map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
    })
}

/// Returns `None` for a broken escape.
fn unescape(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let escapes_are_whole = text.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if !escapes_are_whole {
        return None;
    }
    let blanks = text.replace('+', " ");
    let decoded = percent_decode_str(&blanks).decode_utf8_lossy().into_owned();
    Some(Cow::Owned(decoded))
}

/// Seconds as Go prints a duration: `30s`, `7m55s`, `1h0m0s`.
pub(super) fn go_duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reserved_characters_are_escaped_as_go_escapes_them() {
        let mut query = QueryWriter::default();
        query.push("labelSelector", "a in (b,c)");
        query.push_text("empty", "");
        query.push("x", "~é+");
        assert_eq!(query.finish(), "labelSelector=a+in+%28b%2Cc%29&x=~%C3%A9%2B");
    }

    #[test]
    fn broken_pairs_are_left_out() {
        let params = QueryParams::parse("a=1&&a=2&b=%zz&c=%4&d;e=1&f&g=x%20y+z");
        assert_eq!(params.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(
            (params.first("b"), params.first("c"), params.first("e")),
            (None, None, None)
        );
        assert_eq!((params.first("f"), params.first("g")), (Some(""), Some("x y z")));
    }

    #[test]
    fn only_false_and_zero_switch_off() {
        for (query, on) in [
            ("w=true", true),
            ("w=maybe", true),
            ("w=", true),
            ("w=0", false),
            ("w=FALSE", false),
            ("", false),
        ] {
            assert_eq!(QueryParams::parse(query).flag("w"), on, "{query}");
        }
    }

    #[test]
    fn numbers_are_refused_in_gos_words() {
        for (query, message) in [
            ("n=abc", r#"strconv.ParseInt: parsing "abc": invalid syntax"#),
            ("n=", r#"strconv.ParseInt: parsing "": invalid syntax"#),
            (
                "n=9223372036854775808",
                r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#,
            ),
        ] {
            let error = QueryParams::parse(query).number("n").unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (400, message));
        }
        assert_eq!(QueryParams::parse("n=-1").number("n").unwrap(), Some(-1));
    }

    #[test]
    fn durations_print_as_in_go() {
        for (seconds, text) in [
            (0, "0s"),
            (30, "30s"),
            (300, "5m0s"),
            (475, "7m55s"),
            (3600, "1h0m0s"),
        ] {
            assert_eq!(go_duration(seconds), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(pairs in proptest::collection::vec(("\\PC{1,5}", "\\PC{0,8}"), 0..4)) {
            let mut query = QueryWriter::default();
            for (name, value) in &pairs {
                query.push(name, value);
            }
            let query = query.finish();
            let read = QueryParams::parse(&query).pairs;
            let read: Vec<_> = read.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
            prop_assert_eq!(read, pairs);
        }
    }
}
