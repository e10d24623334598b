//! URLs: absolute ones, and absolute paths as in a request.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use percent_encoding::percent_decode_str;

use super::strings::text;
use super::{Evaluated, Function, Work, tenth};
use crate::error::EvalError;
use crate::value::{Map, Opaque, Value};

const PART: &[&str] = &["kubernetes.URL.() -> string"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("url", &["(string) -> kubernetes.URL"], |v, _| {
        let text = text(&v[0])?;
        match Url::read(text) {
            Ok(url) => Ok(Value::Opaque(Opaque::Url(Rc::new(url)))),
            Err(why) => Err(EvalError::failed(format!(
                "URL parse error during conversion from string: parse {text:?}: {why}"
            ))),
        }
    })
    .costing(|n| tenth(n.of(0)).max(1)),
    Function::new("isURL", &["(string) -> bool"], |v, _| {
        Ok(Value::Bool(Url::read(text(&v[0])?).is_ok()))
    })
    .reading(),
    Function::new("getScheme", PART, |v, work| part(v, work, |url| &url.scheme)),
    Function::new("getHost", PART, |v, work| part(v, work, |url| &url.host)),
    Function::new("getHostname", PART, |v, work| part(v, work, Url::hostname)),
    Function::new("getPort", PART, |v, work| part(v, work, Url::port)),
    Function::new("getEscapedPath", PART, |v, work| part(v, work, |url| &url.path)),
    Function::new(
        "getQuery",
        &["kubernetes.URL.() -> map(string, list(string))"],
        |v, work| {
            let url = of(&v[0])?;
            work.made(url.query.as_ref().map_or(0, String::len))?;
            let entries = url.queries().into_iter().map(|(key, values)| {
                let values = values.into_iter().map(Value::text).collect();
                (Value::text(key), Value::list(values))
            });
            Ok(Value::Map(Map::of_entries(entries.collect())?))
        },
    ),
];

fn of<'v>(value: &'v Value<'_>) -> Result<&'v Url, EvalError> {
    match value {
        Value::Opaque(Opaque::Url(url)) => Ok(url),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// A part of a URL: a new text, which is paid for.
fn part<'a>(v: &[Value<'a>], work: &Work<'_>, of_url: fn(&Url) -> &str) -> Evaluated<'a> {
    let part = of_url(of(&v[0])?);
    work.steps(part.len() as u64)?;
    Ok(Value::text(part))
}

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// With the port.
    host: String,
    user: Option<String>,
    path: String,
    query: Option<String>,
}

impl Url {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (before, query) = match text.split_once('?') {
            Some((before, query)) => (before, Some(query.to_owned())),
            None => (text, None),
        };
        let (scheme, rest) = split_scheme(before)?;
        if !rest.starts_with('/') {
            return Err("invalid URI for request".to_owned());
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => {
                let end = rest.find('/').unwrap_or(rest.len());
                rest.split_at(end)
            }
            _ => ("", rest),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        check_host(host)?;
        check_escapes(path)?;
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            user,
            path: path.to_owned(),
            query,
        })
    }

    fn hostname(&self) -> &str {
        let port = self.port();
        let host = match port.is_empty() {
            true => self.host.strip_suffix(':').unwrap_or(&self.host),
            false => &self.host[..self.host.len() - port.len() - 1],
        };
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    fn port(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((_, port)) if !port.contains(']') => port,
            _ => "",
        }
    }

    fn queries(&self) -> BTreeMap<String, Vec<String>> {
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let pairs = self.query.as_deref().unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            found.entry(decode(key)).or_default().push(decode(value));
        }
        found
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest)) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
            match scheme.chars().all(is_allowed) {
                true => Ok((scheme, rest)),
                false => Ok(("", text)),
            }
        }
        Some((scheme, _)) if !scheme.contains('/') => {
            Err("first path segment in URL cannot contain colon".to_owned())
        }
        _ => Ok(("", text)),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((_, port)) => port,
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.find(':').map_or("", |at| &host[at..]),
    };
    let is_port = port.is_empty() || port.starts_with(':') && port[1..].bytes().all(|c| c.is_ascii_digit());
    if !is_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    match host
        .chars()
        .find(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`'))
    {
        Some(c) => Err(format!("invalid character {:?} in host name", c.to_string())),
        None => Ok(()),
    }
}

fn check_escapes(path: &str) -> Result<(), String> {
    for (at, _) in path.match_indices('%') {
        let digits = path.as_bytes().get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = path[at..].chars().take(3).collect();
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if !self.host.is_empty() || self.user.is_some() {
            f.write_str("//")?;
        }
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}{}", self.host, self.path)?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}
