//! A file per severity, as klog keeps them: `PROGRAM.HOST.USER.log.INFO.20221223-153739.8220`.
//!
//! A line goes to the file of its severity and to those of all lower ones, so that INFO has everything and ERROR only
//! errors. `PROGRAM.INFO` is a link to the newest file.

use std::path::{Path, PathBuf};

use super::file::{File, FileOptions};
use super::{Sink, SinkError};
use crate::severity::Severity;

pub(super) struct Directory {
    /// In the order of [`Severity::ALL`].
    files: [File; 4],
    one_output: bool,
}

impl Directory {
    pub(super) fn open(
        directory: PathBuf,
        one_output: bool,
        options: FileOptions,
    ) -> Result<Self, SinkError> {
        let name = Name::of_this_process(&options);
        let open = |severity| {
            let path = directory.join(name.file(severity));
            link(&directory.join(name.link(severity)), &path);
            File::open(path, options.clone())
        };
        let [info, warning, error, fatal] = Severity::ALL.map(open);
        Ok(Self {
            files: [info?, warning?, error?, fatal?],
            one_output,
        })
    }
}

impl Sink for Directory {
    fn write(&self, severity: Severity, line: &str) {
        let own = severity as usize;
        let first = if self.one_output { own } else { 0 };
        for file in &self.files[first..=own] {
            file.write(severity, line);
        }
    }
}

/// The common part of a process's file names.
struct Name {
    program: String,
    started: String,
}

impl Name {
    fn of_this_process(options: &FileOptions) -> Self {
        let program = std::env::current_exe().ok();
        let program = program
            .as_deref()
            .and_then(Path::file_stem)
            .map(|name| name.to_string_lossy().into_owned());
        Self {
            program: program.unwrap_or_else(|| "program".to_owned()),
            started: options.clock.now().strftime("%Y%m%d-%H%M%S").to_string(),
        }
    }

    fn file(&self, severity: Severity) -> String {
        let (program, started) = (&self.program, &self.started);
        format!(
            "{program}.{}.{}.log.{severity}.{started}.{}",
            host(),
            user(),
            std::process::id()
        )
    }

    fn link(&self, severity: Severity) -> String {
        format!("{}.{severity}", self.program)
    }
}

/// Creates the link; a failure is ignored.
fn link(link: &Path, target: &Path) {
    let _ = std::fs::remove_file(link);
    #[cfg(unix)]
    if let Some(name) = target.file_name() {
        let _ = std::os::unix::fs::symlink(name, link);
    }
    #[cfg(not(unix))]
    let _ = target;
}

/// The host name up to its first dot.
pub(super) fn host() -> String {
    let named = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let name = named
        .as_deref()
        .map(str::trim)
        .and_then(|name| name.split('.').next())
        .unwrap_or("");
    if name.is_empty() {
        "unknownhost".to_owned()
    } else {
        name.to_owned()
    }
}

fn user() -> String {
    let name = std::env::var("USER")
        .or_else(|_| std::env::var("USERNAME"))
        .unwrap_or_default();
    if name.is_empty() {
        "unknownuser".to_owned()
    } else {
        name.replace(['/', '\\'], "_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn lines(directory: &Path, severity: Severity) -> String {
        let ending = format!(".log.{severity}.");
        let mut entries = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let file = entries
            .find(|path| path.to_string_lossy().contains(&ending))
            .unwrap();
        std::fs::read_to_string(file).unwrap()
    }

    fn write_all(one_output: bool) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let options = FileOptions {
            limit: 0,
            header: false,
            clock: Clock::system(),
        };
        let sink = Directory::open(directory.path().to_owned(), one_output, options).unwrap();
        for severity in [Severity::Info, Severity::Warning, Severity::Error] {
            sink.write(severity, &format!("{severity}\n"));
        }
        directory
    }

    #[test]
    fn milder_files_tell_the_whole_story() {
        let directory = write_all(false);
        assert_eq!(lines(directory.path(), Severity::Info), "INFO\nWARNING\nERROR\n");
        assert_eq!(lines(directory.path(), Severity::Warning), "WARNING\nERROR\n");
        assert_eq!(lines(directory.path(), Severity::Error), "ERROR\n");
        assert_eq!(lines(directory.path(), Severity::Fatal), "");
    }

    #[test]
    fn one_output_keeps_severities_apart() {
        let directory = write_all(true);
        assert_eq!(lines(directory.path(), Severity::Info), "INFO\n");
        assert_eq!(lines(directory.path(), Severity::Error), "ERROR\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_leads_to_the_newest_file() {
        let directory = write_all(false);
        let mut entries = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let link = entries
            .find(|path| path.extension().is_some_and(|ending| ending == "ERROR"))
            .unwrap();
        assert_eq!(std::fs::read_to_string(link).unwrap(), "ERROR\n");
    }
}
