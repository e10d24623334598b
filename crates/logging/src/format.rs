//! The line formats: klog's own, JSON, and columns for a console.

use jiff::Zoned;

use crate::severity::Severity;
use crate::value::Value;

mod console;
mod json;
mod klog;

/// The three formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// `I1223 15:37:39.838107    8220 main.rs:20] "message" key="value"`.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// Time, level, caller, message and values, with tabs between.
    Console,
}

/// The time format of JSON and console. klog's format has its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeStyle {
    /// Seconds since 1970 with a fraction: `1671948467.35341`.
    #[default]
    Seconds,
    /// A `strftime` format: `%Y-%m-%d %H:%M:%S.%2f`.
    Custom(String),
}

/// The severity format of JSON and console.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum LevelStyle {
    /// `info`.
    #[default]
    Lower,
    /// `INFO`.
    Upper,
}

/// The format of a line and its details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formatter {
    /// The layout.
    pub format: Format,
    /// klog: omit everything before the message.
    pub skip_headers: bool,
    /// klog: print the file's directory too.
    pub add_dir_header: bool,
    /// JSON and console: the time.
    pub time: TimeStyle,
    /// JSON and console: the severity.
    pub level: LevelStyle,
}

/// A message with its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The time.
    pub time: &'a Zoned,
    /// The severity.
    pub severity: Severity,
    /// The process id.
    pub process: u32,
    /// The source file, with its path.
    pub file: &'a str,
    /// The line in it.
    pub line: u32,
    /// The names of the surrounding spans, joined; may be empty.
    pub logger: &'a str,
    /// The message.
    pub message: &'a str,
    /// The key-value pairs.
    pub values: &'a [(&'static str, Value)],
}

impl Formatter {
    /// The line, with its line feed.
    pub fn line(&self, record: &Record<'_>) -> String {
        let mut line = match self.format {
            Format::Text => klog::line(record, self),
            Format::Json => json::line(record, self),
            Format::Console => console::line(record, self),
        };
        if !line.ends_with('\n') {
            line.push('\n');
        }
        line
    }

    fn level(&self, severity: Severity) -> &'static str {
        match (self.level, severity) {
            (LevelStyle::Lower, Severity::Info) => "info",
            (LevelStyle::Lower, Severity::Warning) => "warn",
            (LevelStyle::Lower, Severity::Error) => "error",
            (LevelStyle::Lower, Severity::Fatal) => "fatal",
            (LevelStyle::Upper, Severity::Warning) => "WARN",
            (LevelStyle::Upper, other) => other.name(),
        }
    }
}

impl Record<'_> {
    fn file_name(&self) -> &str {
        self.file.rsplit(['/', '\\']).next().unwrap_or(self.file)
    }

    /// The file and its directory.
    fn short_path(&self) -> &str {
        let name_starts = self.file.len() - self.file_name().len();
        let directory = self.file[..name_starts].trim_end_matches(['/', '\\']);
        match directory.rfind(['/', '\\']) {
            Some(slash) => &self.file[slash + 1..],
            None => self.file,
        }
    }

    /// The message, prefixed with its logger's name.
    fn full_message(&self) -> String {
        match self.logger {
            "" => self.message.to_owned(),
            logger => format!("{logger}: {}", self.message),
        }
    }
}

/// The time in the user's format; the default format if that is invalid.
fn strftime(time: &Zoned, format: &str) -> String {
    jiff::fmt::strtime::format(format, time).unwrap_or_else(|_| time.timestamp().to_string())
}
