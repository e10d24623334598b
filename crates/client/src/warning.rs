//! `Warning` headers: a server's messages to the user about a successful request.

use http::{HeaderMap, header};

/// The code of all Kubernetes warnings; others are about caches.
const MISCELLANEOUS: u16 = 299;

/// One warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// 299 for everything Kubernetes sends.
    pub code: u16,
    /// The warning agent; `-` if unknown.
    pub agent: String,
    /// The text, unescaped.
    pub text: String,
}

impl Warning {
    /// The default handler: logs Kubernetes' warnings, as in client-go.
    pub(crate) fn log(&self) {
        if self.code == MISCELLANEOUS && !self.text.is_empty() {
            tracing::warn!("{}", self.text);
        }
    }
}

/// All warnings of a response; a header may hold several, and malformed ones are skipped.
pub(crate) fn warnings(headers: &HeaderMap) -> impl Iterator<Item = Warning> {
    let values = headers.get_all(header::WARNING).into_iter();
    values
        .filter_map(|value| std::str::from_utf8(value.as_bytes()).ok())
        .flat_map(|value| {
            let mut rest = value;
            std::iter::from_fn(move || parse(&mut rest))
        })
}

/// Consumes `299 - "text"` with an optional date, and the comma after it.
fn parse(rest: &mut &str) -> Option<Warning> {
    let text = rest.trim_start_matches([' ', ',']);
    let (code, text) = text.split_once(' ')?;
    let (agent, text) = text.trim_start().split_once(' ')?;
    let (message, text) = quoted(text.trim_start())?;
    let text = text.trim_start();
    *rest = if text.starts_with('"') {
        quoted(text)?.1
    } else {
        text
    };
    if code.len() != 3 || !code.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(Warning {
        code: code.parse().ok()?,
        agent: agent.to_owned(),
        text: message,
    })
}

/// Consumes a quoted string; a backslash escapes the next character.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut characters = text.strip_prefix('"')?.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((out, &text[index + 2..])),
            '\\' => out.push(characters.next()?.1),
            character => out.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(value: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::WARNING,
            http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
        warnings(&headers).map(|warning| warning.text).collect()
    }

    #[test]
    fn warnings_are_read_from_headers() {
        let check = |value, expected: &[&str]| assert_eq!(texts(value), expected, "{value}");
        check(r#"299 - "use v1""#, &["use v1"]);
        check(
            r#"299 - "a \"quoted\" word", 299 kube "b, c""#,
            &["a \"quoted\" word", "b, c"],
        );
        check(
            r#"299 - "dated" "Wed, 21 Oct 2015 07:28:00 GMT", 299 - "next""#,
            &["dated", "next"],
        );
        check(r#"299 - "unterminated"#, &[]);
        check("nonsense", &[]);
        check(r#"29 - "a""#, &[]);
        check(r#"+99 - "a""#, &[]);
        check(r#"110 - "stale", 299 - "b""#, &["stale", "b"]);
        check("299 - \"größe\"", &["größe"]);
    }
}
