//! Versions such as `1.2.3-rc.1`, ordered as semantic versions are.

use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

use super::strings::text;
use super::{Evaluated, Function, no_overload};
use crate::error::EvalError;
use crate::value::{Opaque, Value};

const NUMBER: &[&str] = &["kubernetes.Semver.() -> int"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new(
        "semver",
        &[
            "(string) -> kubernetes.Semver",
            "(string, bool) -> kubernetes.Semver",
        ],
        |v, _| match read(v)? {
            Some(version) => Ok(Value::Opaque(Opaque::Semver(Rc::new(version)))),
            None => Err(EvalError::failed("invalid semantic version")),
        },
    )
    .reading(),
    Function::new(
        "isSemver",
        &["(string) -> bool", "(string, bool) -> bool"],
        |v, _| Ok(Value::Bool(read(v)?.is_some())),
    )
    .reading(),
    Function::new("major", NUMBER, |v, _| number(v, |it| it.major)),
    Function::new("minor", NUMBER, |v, _| number(v, |it| it.minor)),
    Function::new("patch", NUMBER, |v, _| number(v, |it| it.patch)),
];

/// A version. Build metadata, after a `+`, is ignored in comparisons.
#[derive(Clone, Debug)]
pub struct Semver {
    major: u64,
    minor: u64,
    patch: u64,
    before: Vec<String>,
    build: Option<String>,
}

fn read(v: &[Value<'_>]) -> Result<Option<Semver>, EvalError> {
    let text = text(&v[0])?;
    match v.get(1) {
        Some(Value::Bool(true)) => Ok(Semver::read(&normalized(text))),
        None | Some(Value::Bool(false)) => Ok(Semver::read(text)),
        Some(_) => Err(EvalError::NoSuchOverload),
    }
}

/// Reads `v1.01` as `1.1.0`.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let trim = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        part => part.to_owned(),
    };
    let mut parts: Vec<String> = core.split('.').map(trim).collect();
    while parts.len() < 3 {
        parts.push("0".to_owned());
    }
    format!("{}{rest}", parts.join("."))
}

fn number<'a>(v: &[Value<'a>], of: fn(&Semver) -> u64) -> Evaluated<'a> {
    match &v[0] {
        Value::Opaque(Opaque::Semver(version)) => {
            let number = i64::try_from(of(version));
            number.map(Value::Int).map_err(|_| EvalError::Overflow("integer"))
        }
        _ => no_overload(),
    }
}

impl Semver {
    fn read(text: &str) -> Option<Self> {
        let (text, build) = match text.split_once('+') {
            Some((text, build)) => (text, Some(build.to_owned())),
            None => (text, None),
        };
        let (core, before) = match text.split_once('-') {
            Some((core, before)) => (core, before.split('.').map(str::to_owned).collect()),
            None => (text, Vec::new()),
        };
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
        let is_padded = |word: &String| digits(word).is_some() && word.len() > 1 && word.starts_with('0');
        if !before.iter().all(|word: &String| is_word(word)) || before.iter().any(is_padded) {
            return None;
        }
        if !build.iter().flat_map(|build| build.split('.')).all(is_word) {
            return None;
        }
        let mut numbers = core.split('.').map(digits);
        let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let is_exact = core.split('.').all(|part| part == "0" || !part.starts_with('0'));
        (numbers.next().is_none() && is_exact).then_some(Self {
            major,
            minor,
            patch,
            before,
            build,
        })
    }
}

fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

impl Ord for Semver {
    fn cmp(&self, other: &Self) -> Ordering {
        let core = |it: &Self| (it.major, it.minor, it.patch);
        core(self).cmp(&core(other)).then_with(|| {
            match (self.before.is_empty(), other.before.is_empty()) {
                (true, true) => Ordering::Equal,
                // A pre-release is less than its release.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_words(&self.before, &other.before),
            }
        })
    }
}

fn compare_words(a: &[String], b: &[String]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let ordering = match (digits(a), digits(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    a.len().cmp(&b.len())
}

impl PartialOrd for Semver {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Semver {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Semver {}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.before.is_empty() {
            write!(f, "-{}", self.before.join("."))?;
        }
        match &self.build {
            Some(build) => write!(f, "+{build}"),
            None => Ok(()),
        }
    }
}
