//! klog's flags as a plain struct; with the `clap` feature, as arguments.

use std::path::PathBuf;

use crate::format::{Format, Formatter, LevelStyle, TimeStyle};
use crate::severity::Severity;
use crate::trace_location::TraceLocation;
use crate::verbosity::Verbosity;
use crate::vmodule::Vmodule;

/// The largest log file before a new one is started, in megabytes: klog's default.
pub const LOG_FILE_MAX_SIZE_MB: u64 = 1800;

/// Levels, format and sinks. The default is klog's: level 0, to standard error.
///
/// With the feature `clap` these are arguments: flatten them into those of a program, or use `Options::parse()`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::Parser))]
pub struct Options {
    /// Number for the log level verbosity
    #[cfg_attr(
        feature = "clap",
        arg(
            short = 'v',
            long = "v",
            value_name = "LEVEL",
            default_value_t = 0,
            allow_negative_numbers = true,
            global = true
        )
    )]
    pub v: i32,

    /// Comma-separated list of pattern=N settings for file-filtered logging
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "PATTERN=N", default_value_t, global = true)
    )]
    pub vmodule: Vmodule,

    /// When logging hits line FILE:N, emit a stack trace
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            alias = "log_backtrace_at",
            value_name = "FILE:N",
            default_value_t,
            global = true
        )
    )]
    pub log_backtrace_at: TraceLocation,

    /// Log to standard error instead of files
    #[cfg_attr(
        feature = "clap",
        arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true",
            action = clap::ArgAction::Set, value_name = "BOOL", global = true)
    )]
    pub logtostderr: bool,

    /// Log to standard error as well as files (no effect when --logtostderr=true)
    #[cfg_attr(
        feature = "clap",
        arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
            action = clap::ArgAction::Set, value_name = "BOOL", global = true)
    )]
    pub alsologtostderr: bool,

    /// Logs at or above this threshold go to standard error when writing to files (no effect when
    /// --logtostderr=true or --alsologtostderr=true)
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "SEVERITY", default_value_t, global = true)
    )]
    pub stderrthreshold: Severity,

    /// If non-empty, write log files in this directory (no effect when --logtostderr=true)
    #[cfg_attr(
        feature = "clap",
        arg(long, alias = "log_dir", value_name = "DIR", global = true)
    )]
    pub log_dir: Option<PathBuf>,

    /// If non-empty, use this log file (no effect when --logtostderr=true)
    #[cfg_attr(
        feature = "clap",
        arg(long, alias = "log_file", value_name = "FILE", global = true)
    )]
    pub log_file: Option<PathBuf>,

    /// The maximum size a log file can grow to, in megabytes; 0 means unlimited (no effect when --logtostderr=true)
    #[cfg_attr(
        feature = "clap",
        arg(long, alias = "log_file_max_size", value_name = "MB", default_value_t = LOG_FILE_MAX_SIZE_MB, global = true)
    )]
    pub log_file_max_size: u64,

    /// Avoid header prefixes in the log messages
    #[cfg_attr(feature = "clap", arg(long, alias = "skip_headers", global = true))]
    pub skip_headers: bool,

    /// Avoid headers when opening log files (no effect when --logtostderr=true)
    #[cfg_attr(feature = "clap", arg(long, alias = "skip_log_headers", global = true))]
    pub skip_log_headers: bool,

    /// Add the file directory to the header of the log messages
    #[cfg_attr(feature = "clap", arg(long, alias = "add_dir_header", global = true))]
    pub add_dir_header: bool,

    /// Only write logs to their native severity level, not also to each lower one (no effect when --logtostderr=true)
    #[cfg_attr(feature = "clap", arg(long, alias = "one_output", global = true))]
    pub one_output: bool,

    /// Sets the log format
    #[cfg_attr(
        feature = "clap",
        arg(long, alias = "log_format", alias = "logging-format", value_enum, value_name = "FORMAT",
            default_value_t = Format::Text, global = true)
    )]
    pub log_format: Format,

    /// Time format (strftime) of the json and console formats; by default seconds since 1970
    #[cfg_attr(feature = "clap", arg(long, value_name = "STRFTIME", global = true))]
    pub log_time_format: Option<String>,

    /// Severity style of the json and console formats
    #[cfg_attr(
        feature = "clap",
        arg(long, value_enum, value_name = "STYLE", default_value_t = LevelStyle::Lower, global = true)
    )]
    pub log_level_style: LevelStyle,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            v: 0,
            vmodule: Vmodule::default(),
            log_backtrace_at: TraceLocation::default(),
            logtostderr: true,
            alsologtostderr: false,
            stderrthreshold: Severity::Error,
            log_dir: None,
            log_file: None,
            log_file_max_size: LOG_FILE_MAX_SIZE_MB,
            skip_headers: false,
            skip_log_headers: false,
            add_dir_header: false,
            one_output: false,
            log_format: Format::Text,
            log_time_format: None,
            log_level_style: LevelStyle::Lower,
        }
    }
}

impl Options {
    /// The initial levels.
    pub fn verbosity(&self) -> Verbosity {
        Verbosity::new(self.v, self.vmodule.clone())
    }

    /// The line format.
    pub fn formatter(&self) -> Formatter {
        Formatter {
            format: self.log_format,
            skip_headers: self.skip_headers,
            add_dir_header: self.add_dir_header,
            time: match &self.log_time_format {
                Some(format) => TimeStyle::Custom(format.clone()),
                None => TimeStyle::Seconds,
            },
            level: self.log_level_style,
        }
    }
}
