//! A log file with a size limit: at the limit it is renamed to `FILE.1`, replacing the one before.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::{Sink, SinkError, write_to_stderr};
use crate::clock::Clock;
use crate::severity::Severity;

/// Options of log files.
#[derive(Clone, Debug)]
pub(super) struct FileOptions {
    /// Bytes; 0 means no limit.
    pub(super) limit: u64,
    /// True to start a new file with a header.
    pub(super) header: bool,
    pub(super) clock: Clock,
}

/// One log file, kept below its limit.
pub(super) struct File {
    path: PathBuf,
    options: FileOptions,
    state: Mutex<State>,
}

struct State {
    file: fs::File,
    size: u64,
    /// A loss was reported; it is reported only once.
    lost: bool,
}

impl File {
    /// Opens the file for appending.
    pub(super) fn open(path: PathBuf, options: FileOptions) -> Result<Self, SinkError> {
        let state = match State::open(&path, &options) {
            Ok(state) => state,
            Err(source) => return Err(SinkError { path, source }),
        };
        Ok(Self {
            path,
            options,
            state: Mutex::new(state),
        })
    }
}

impl Sink for File {
    fn write(&self, _: Severity, line: &str) {
        let mut state = self.state.lock();
        let written = state
            .make_room(line.len() as u64, &self.path, &self.options)
            .and_then(|()| state.append(line));
        if let Err(error) = written
            && !state.lost
        {
            state.lost = true;
            write_to_stderr(&format!(
                "log: lines are lost, cannot write {}: {error}\n",
                self.path.display()
            ));
        }
    }
}

impl State {
    fn open(path: &Path, options: &FileOptions) -> io::Result<Self> {
        let file = fs::OpenOptions::new().create(true).append(true).open(path)?;
        let size = file.metadata()?.len();
        let mut state = Self {
            file,
            size,
            lost: false,
        };
        if options.header && size == 0 {
            state.append(&header(&options.clock))?;
        }
        Ok(state)
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(line.as_bytes())?;
        self.size += line.len() as u64;
        Ok(())
    }

    /// Rotates the file if the line would not fit. A line longer than the limit gets its own file.
    fn make_room(&mut self, length: u64, path: &Path, options: &FileOptions) -> io::Result<()> {
        if options.limit == 0 || self.size == 0 || self.size + length <= options.limit {
            return Ok(());
        }
        fs::rename(path, aside(path))?;
        *self = Self::open(path, options)?;
        Ok(())
    }
}

/// `FILE.1`
fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// The header of a file, as klog writes it.
fn header(clock: &Clock) -> String {
    format!(
        "Log file created at: {}\nRunning on machine: {}\nBinary: Built with Rust for {}/{}\n\
         Log line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n",
        clock.now().strftime("%Y/%m/%d %H:%M:%S"),
        super::directory::host(),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(limit: u64) -> FileOptions {
        FileOptions {
            limit,
            header: false,
            clock: Clock::system(),
        }
    }

    #[test]
    fn a_file_at_its_limit_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let file = File::open(path.clone(), options(10)).unwrap();
        for line in [
            "one\n",
            "two\n",
            "three\n",
            "four\n",
            "a line beyond the limit\n",
            "x\n",
        ] {
            file.write(Severity::Info, line);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "x\n");
        assert_eq!(
            fs::read_to_string(aside(&path)).unwrap(),
            "a line beyond the limit\n"
        );
    }

    #[test]
    fn a_restart_continues_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for line in ["one\n", "two\n"] {
            File::open(
                path.clone(),
                FileOptions {
                    header: true,
                    ..options(0)
                },
            )
            .unwrap()
            .write(Severity::Info, line);
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("Log file created at: "), "{text}");
        assert!(text.ends_with("file:line] msg\none\ntwo\n"), "{text}");
    }

    #[test]
    fn lines_are_lost_rather_than_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let file = File::open(path.clone(), options(4)).unwrap();
        file.write(Severity::Info, "one\n");
        fs::remove_dir_all(directory.path()).unwrap();
        file.write(Severity::Info, "two\n");
        assert!(file.state.lock().lost);
        fs::create_dir(directory.path()).unwrap();
        fs::write(&path, "").unwrap();
        file.write(Severity::Info, "three\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
    }

    #[test]
    fn a_path_that_cannot_be_opened_is_named() {
        let error = File::open("/nowhere/log".into(), options(0)).err().unwrap();
        assert_eq!(error.to_string(), "cannot open log file /nowhere/log");
    }
}
