//! Severities: I, W, E and F.

use std::fmt;
use std::str::FromStr;

/// The severity of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information.
    Info,
    /// A possible problem.
    Warning,
    /// A problem.
    #[default]
    Error,
    /// Ends the program.
    Fatal,
}

/// Neither the name nor the number of a severity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a severity: INFO, WARNING, ERROR, FATAL or 0 to 3")]
pub struct ParseSeverityError(String);

impl Severity {
    /// All of them, in ascending order.
    pub const ALL: [Self; 4] = [Self::Info, Self::Warning, Self::Error, Self::Fatal];

    /// The first letter of a line.
    pub fn letter(self) -> char {
        self.name().as_bytes()[0].into()
    }

    /// The name in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Severity {
    type Err = ParseSeverityError;

    /// By name in any case, or by number: `ERROR` is 2.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let by_name = Self::ALL
            .into_iter()
            .find(|severity| severity.name().eq_ignore_ascii_case(text));
        let by_number = || {
            text.parse()
                .ok()
                .and_then(|number: usize| Self::ALL.get(number).copied())
        };
        by_name
            .or_else(by_number)
            .ok_or_else(|| ParseSeverityError(text.to_owned()))
    }
}
