//! The file of an audit log: a thread writes lines and rotates the file by size, age and number.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use watchkeeper_meta::Time;

use crate::metrics::AuditFigures;

/// The limit on queued events; more are dropped and counted. As kube-apiserver's buffer.
const MAX_QUEUED: usize = 10_000;

/// The limit on the bytes of queued events. An event may show a request and a response of some MiB each.
const MAX_QUEUED_BYTES: usize = 64 << 20;

/// The file and its rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLogOptions {
    /// The file; `-` is standard output.
    pub path: PathBuf,
    /// The size at which the file is rotated; `None`: never.
    pub max_bytes: Option<u64>,
    /// The age at which rotated files are deleted; `None`: never.
    pub max_age: Option<Duration>,
    /// The number of rotated files to keep; `None`: all.
    pub max_backups: Option<usize>,
}

/// The queue to the writing thread.
#[derive(Debug)]
pub(super) struct LogFile {
    lines: Mutex<Option<SyncSender<Vec<u8>>>>,
    queued_bytes: Arc<AtomicUsize>,
    writer: Mutex<Option<JoinHandle<()>>>,
    written: AtomicU64,
    dropped: AtomicU64,
}

impl LogFile {
    pub(super) fn open(options: AuditLogOptions) -> io::Result<Self> {
        let mut rotating = Rotating::open(options)?;
        let (lines, queue) = sync_channel(MAX_QUEUED);
        let queued_bytes = Arc::<AtomicUsize>::default();
        let of_writer = queued_bytes.clone();
        let writer = std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || rotating.write_all(&queue, &of_writer))?;
        Ok(Self {
            queued_bytes,
            lines: Mutex::new(Some(lines)),
            writer: Mutex::new(Some(writer)),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Queues a line, or drops it.
    pub(super) fn write(&self, line: Vec<u8>) {
        if self.enqueue(line) {
            self.written.fetch_add(1, Ordering::Relaxed);
        } else if self.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "the audit log cannot keep up: events are dropped; see apiserver_audit_error_total"
            );
        }
    }

    fn enqueue(&self, line: Vec<u8>) -> bool {
        let bytes = line.len();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before == 0 || before + bytes <= MAX_QUEUED_BYTES;
        let lines = self.lines.lock();
        let is_queued = fits && lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        if !is_queued {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_queued
    }

    pub(super) fn figures(&self) -> AuditFigures {
        AuditFigures {
            written: self.written.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    /// Waits until all queued lines are written.
    pub(super) fn close(&self) {
        drop(self.lines.lock().take());
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

enum Output {
    Standard,
    File(BufWriter<File>),
}

/// The current file.
struct Rotating {
    options: AuditLogOptions,
    output: Output,
    bytes: u64,
}

impl Rotating {
    fn open(options: AuditLogOptions) -> io::Result<Self> {
        if options.path == Path::new("-") {
            return Ok(Self {
                options,
                output: Output::Standard,
                bytes: 0,
            });
        }
        let file = private().open(&options.path)?;
        Ok(Self {
            bytes: file.metadata()?.len(),
            output: Output::File(BufWriter::new(file)),
            options,
        })
    }

    /// Writes until all senders are dropped. Lines queued together are flushed together.
    fn write_all(&mut self, queue: &Receiver<Vec<u8>>, queued_bytes: &AtomicUsize) {
        let write = |line: Vec<u8>, rotating: &mut Self| {
            queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
            rotating.write(&line)
        };
        while let Ok(first) = queue.recv() {
            let mut written = write(first, self);
            while let Ok(line) = queue.try_recv() {
                written = written.and(write(line, self));
            }
            if let Err(error) = written.and_then(|()| self.flush()) {
                tracing::error!(%error, "cannot write the audit log");
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let size = line.len() as u64;
        if self.bytes > 0 && self.options.max_bytes.is_some_and(|max| self.bytes + size > max) {
            self.rotate()?;
        }
        self.bytes += size;
        match &mut self.output {
            Output::Standard => io::stdout().lock().write_all(line),
            Output::File(file) => file.write_all(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Standard => io::stdout().lock().flush(),
            Output::File(file) => file.flush(),
        }
    }

    /// Renames the file and starts a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let Output::File(file) = &mut self.output else {
            return Ok(());
        };
        file.flush()?;
        let now = SystemTime::now();
        fs::rename(&self.options.path, backup(&self.options.path, now))?;
        self.output = Output::File(BufWriter::new(private().open(&self.options.path)?));
        self.bytes = 0;
        self.prune(now)
    }

    /// Deletes rotated files beyond the limits.
    fn prune(&self, now: SystemTime) -> io::Result<()> {
        let mut backups = backups(&self.options.path)?;
        // Their names sort by time; the newest first.
        backups.sort_by(|a, b| b.cmp(a));
        for (index, path) in backups.iter().enumerate() {
            let age = fs::metadata(path)?.modified()?;
            let age = now.duration_since(age).unwrap_or_default();
            let is_old = self.options.max_age.is_some_and(|max| age > max);
            if is_old || self.options.max_backups.is_some_and(|max| index >= max) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Opens a log for appending; a new one is readable only by its owner.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// `audit.log` becomes `audit-2026-11-18T00-00-00.000000000.log`.
fn backup(path: &Path, now: SystemTime) -> PathBuf {
    let time: Time = now.into();
    let text = time.to_string().replace(':', "-");
    let (date, _) = text.split_at(text.len().min("2026-11-18T00-00-00".len()));
    let (stem, extension) = split(path);
    path.with_file_name(format!("{stem}-{date}.{:09}{extension}", time.nanos))
}

fn backups(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stem, extension) = split(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new(".")))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_backup = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let middle = name
            .strip_prefix(&stem)
            .and_then(|rest| rest.strip_suffix(&extension));
        middle.is_some_and(|middle| {
            middle.starts_with('-') && middle.len() == "-2026-11-18T00-00-00.000000000".len()
        })
    };
    Ok(files.filter(is_backup).collect())
}

/// The name without its extension, and the extension with its dot.
fn split(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = match text(path.extension()) {
        extension if extension.is_empty() => extension,
        extension => format!(".{extension}"),
    };
    (text(path.file_stem()), extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log whose thread writes nothing.
    fn stuck(queue: SyncSender<Vec<u8>>) -> LogFile {
        LogFile {
            lines: Mutex::new(Some(queue)),
            queued_bytes: Arc::default(),
            writer: Mutex::new(None),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    #[test]
    fn the_bytes_of_queued_events_are_limited() {
        let (lines, queue) = sync_channel(MAX_QUEUED);
        let log = stuck(lines);
        let large = vec![b'x'; MAX_QUEUED_BYTES / 4];
        (0..6).for_each(|_| log.write(large.clone()));
        assert_eq!((log.figures().written, log.figures().dropped), (4, 2));
        log.close();
        // Written, or at least tried, they make room again.
        let folder = tempfile::tempdir().unwrap();
        let options = AuditLogOptions {
            path: folder.path().join("audit.log"),
            ..AuditLogOptions::default()
        };
        Rotating::open(options)
            .unwrap()
            .write_all(&queue, &log.queued_bytes);
        assert_eq!(log.queued_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_log_is_rotated_by_size_and_keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let log = LogFile::open(AuditLogOptions {
            path: path.clone(),
            max_bytes: Some(10),
            max_age: None,
            max_backups: Some(2),
        });
        let log = log.unwrap();
        for number in 0..10 {
            log.write(format!("line {number}\n").into_bytes());
        }
        log.close();
        log.write(b"too late\n".to_vec());
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 9\n");
        let mut kept = backups(&path).unwrap();
        kept.sort();
        let kept: Vec<_> = kept
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        assert_eq!(kept, ["line 7\n", "line 8\n"]);
        assert_eq!(log.figures().dropped, 1);
    }
}
