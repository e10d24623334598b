//! `--log_backtrace_at`: the source line whose messages have a stack trace.

use std::fmt;
use std::str::FromStr;

/// A line of a source file, `informer.rs:27`; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceLocation(Option<(String, u32)>);

/// Text that is not `file:line`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error: expect file.rs:234, found {0:?}")]
pub struct ParseTraceLocationError(String);

impl TraceLocation {
    /// True if this is the line, in any directory.
    pub(crate) fn is_at(&self, file: &str, line: u32) -> bool {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        self.0.as_ref().is_some_and(|at| at.0 == name && at.1 == line)
    }
}

impl FromStr for TraceLocation {
    type Err = ParseTraceLocationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let (file, line) = text.split_once(':').unwrap_or_default();
        match line.parse() {
            Ok(line) if file.contains('.') => Ok(Self(Some((file.to_owned(), line)))),
            _ => Err(ParseTraceLocationError(text.to_owned())),
        }
    }
}

impl fmt::Display for TraceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((file, line)) => write!(f, "{file}:{line}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_file_and_a_line() {
        let at: TraceLocation = "informer.rs:27".parse().unwrap();
        assert!(at.is_at("crates/runtime/src/informer.rs", 27));
        assert!(!at.is_at("crates/runtime/src/informer.rs", 28));
        assert!(!at.is_at("other.rs", 27));
        assert_eq!(at.to_string(), "informer.rs:27");
        assert_eq!("".parse(), Ok(TraceLocation::default()));
        for text in [
            "informer.rs",
            "informer:27",
            "informer.rs:x",
            "informer.rs:-1",
            "a.rs:1:2",
        ] {
            assert!(text.parse::<TraceLocation>().is_err(), "{text}");
        }
    }
}
