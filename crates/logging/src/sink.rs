//! The destination of lines: standard error, one file, or a file per severity.
//!
//! A line that cannot be written is lost: a program must not stop because its disk is full. The first loss is
//! reported on standard error.

use std::io::{self, Write};
use std::path::PathBuf;

use parking_lot::Mutex;

use crate::clock::Clock;
use crate::options::Options;
use crate::severity::Severity;

mod directory;
mod file;

use directory::Directory;
use file::{File, FileOptions};

/// Accepts whole lines, each with its line feed.
pub trait Sink: Send + Sync {
    /// Writes a line. Errors are not returned.
    fn write(&self, severity: Severity, line: &str);
}

/// A log file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open log file {}", path.display())]
pub struct SinkError {
    /// The file.
    pub path: PathBuf,
    /// The error.
    #[source]
    pub source: io::Error,
}

/// Writes to any writer, one line at a time.
#[derive(Debug)]
pub struct Writer<W>(Mutex<W>);

/// Discards everything.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

/// Standard error and files.
struct Tee {
    files: Box<dyn Sink>,
    /// Lines of at least this severity also go to standard error.
    threshold: Severity,
}

impl<W: Write> Writer<W> {
    /// Writes to this.
    pub fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }
}

impl<W: Write + Send> Sink for Writer<W> {
    fn write(&self, _: Severity, line: &str) {
        let mut writer = self.0.lock();
        let _ = writer.write_all(line.as_bytes()).and_then(|()| writer.flush());
    }
}

impl Sink for Discard {
    fn write(&self, _: Severity, _: &str) {}
}

impl Sink for Box<dyn Sink> {
    fn write(&self, severity: Severity, line: &str) {
        (**self).write(severity, line);
    }
}

impl Sink for Tee {
    fn write(&self, severity: Severity, line: &str) {
        if severity >= self.threshold {
            write_to_stderr(line);
        }
        self.files.write(severity, line);
    }
}

/// Opens the sink of the options. Without a file or directory, files go to the system's directory for temporary
/// files.
pub(crate) fn open(options: &Options) -> Result<Box<dyn Sink>, SinkError> {
    if options.logtostderr {
        return Ok(Box::new(Writer::new(io::stderr())));
    }
    let file_options = FileOptions {
        limit: options.log_file_max_size.saturating_mul(1 << 20),
        header: !options.skip_log_headers,
        clock: Clock::system(),
    };
    let files: Box<dyn Sink> = match (&options.log_file, &options.log_dir) {
        (Some(path), _) => Box::new(File::open(path.clone(), file_options)?),
        (None, Some(directory)) => Box::new(Directory::open(
            directory.clone(),
            options.one_output,
            file_options,
        )?),
        (None, None) => Box::new(Directory::open(
            std::env::temp_dir(),
            options.one_output,
            file_options,
        )?),
    };
    let threshold = if options.alsologtostderr {
        Severity::Info
    } else {
        options.stderrthreshold
    };
    Ok(Box::new(Tee { files, threshold }))
}

fn write_to_stderr(line: &str) {
    let _ = io::stderr().lock().write_all(line.as_bytes());
}
