//! The log of a position: an append-only file that is rewritten after it has grown by a third.
//!
//! ```text
//!   watchkeeper position 2\n
//!   ┌ length u32 ┬ CRC-32 u32 ┬ records ┐   one frame per save, synced to disk
//!   └────────────┴────────────┴─────────┘   …
//! ```
//!
//! Records are `postcard`. `Stream` names the stream of the records after it in the frame; uids and versions are
//! stored as numbers if possible. An object costs some 60 bytes, an event as much.
//!
//! A frame truncated by a crash at the end of the file is ignored: the position is the one before it. Any other
//! mismatch is damage, and an error. A rewrite goes to a new file, which replaces the old one when it is on disk. A
//! file of the first format, a JSON object of stream names and versions, is read too and rewritten by the first save.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use watchkeeper_meta::ResourceVersion;

use super::PositionError;

const MAGIC: &[u8] = b"watchkeeper position 2\n";

/// Length and checksum.
const FRAME_HEAD: usize = 8;

/// The growth of a small file before it is rewritten.
const LEAST_GROWTH: u64 = 64 * 1024;

/// The key of the cluster's identity in files of the first format.
const CLUSTER: &str = "cluster";

/// One step of a position.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Record<'a> {
    /// The cluster of the position.
    Cluster(&'a str),
    /// An object was added or modified.
    Put {
        key: &'a str,
        #[serde(borrow)]
        uid: Uid<'a>,
        #[serde(borrow)]
        version: Version<'a>,
    },
    /// An object was deleted.
    Gone { key: &'a str },
    /// Everything up to this version was handled.
    Reached(#[serde(borrow)] Version<'a>),
    /// The same, and the inventory is complete.
    Synced(#[serde(borrow)] Version<'a>),
    /// The version expired.
    Restarted,
    /// The stream is not followed any more.
    Forgotten,
}

/// A record, or the stream of the records after it.
#[derive(Debug, Serialize, Deserialize)]
enum Entry<'a> {
    Stream(&'a str),
    Record(#[serde(borrow)] Record<'a>),
}

/// A version, in as few bytes as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Version<'a> {
    Number(u64),
    Text(&'a str),
}

/// A uid, in as few bytes as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Uid<'a> {
    Uuid([u8; 16]),
    Text(&'a str),
}

impl<'a> From<&'a str> for Version<'a> {
    fn from(text: &'a str) -> Self {
        match text.parse::<u64>() {
            Ok(number) if number.to_string() == text => Self::Number(number),
            _ => Self::Text(text),
        }
    }
}

impl From<Version<'_>> for ResourceVersion {
    fn from(version: Version<'_>) -> Self {
        match version {
            Version::Number(number) => number.into(),
            Version::Text(text) => Self::new(text),
        }
    }
}

impl<'a> From<&'a str> for Uid<'a> {
    fn from(text: &'a str) -> Self {
        let mut buffer = Uuid::encode_buffer();
        match Uuid::try_parse(text) {
            Ok(uuid) if *uuid.hyphenated().encode_lower(&mut buffer) == *text => {
                Self::Uuid(uuid.into_bytes())
            }
            _ => Self::Text(text),
        }
    }
}

impl From<Uid<'_>> for Box<str> {
    fn from(uid: Uid<'_>) -> Self {
        match uid {
            Uid::Uuid(bytes) => Uuid::from_bytes(bytes).to_string().into(),
            Uid::Text(text) => text.into(),
        }
    }
}

/// An open log.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// The valid length of the file, and its length after the last rewrite.
    len: u64,
    rewritten_len: u64,
    /// True if the file cannot be appended to: it has the first format, or a write has failed.
    must_rewrite: bool,
    next: Frame,
}

impl Log {
    /// Opens or creates the file and passes its records to `each`.
    pub(super) fn open(path: PathBuf, each: impl FnMut(&str, Record<'_>)) -> Result<Self, PositionError> {
        let io = |source| PositionError::File {
            path: path.clone(),
            source,
        };
        let Some(mut file) = open_locked(&path).map_err(io)? else {
            return Err(PositionError::InUse { path });
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let is_new_format = !bytes.is_empty() && bytes.starts_with(MAGIC);
        let len = match is_new_format {
            true => read_frames(&bytes, each).map_err(|at| PositionError::Damaged {
                path: path.clone(),
                at,
            })?,
            false => {
                read_first_format(&bytes, each).map_err(|source| PositionError::Format {
                    path: path.clone(),
                    source,
                })?;
                0
            }
        };
        Ok(Self {
            path,
            file,
            len: len as u64,
            rewritten_len: rewritten_len(&bytes) as u64,
            must_rewrite: !is_new_format,
            next: Frame::default(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a record to the next save.
    pub(super) fn append(&mut self, stream: &str, record: &Record<'_>) {
        self.next.push(stream, record);
    }

    /// Writes the appended records, durably. `state` gives the records of a rewrite.
    pub(super) fn save(
        &mut self,
        state: impl FnOnce(&mut dyn FnMut(&str, &Record<'_>)),
    ) -> Result<(), PositionError> {
        if self.next.is_empty() {
            return Ok(());
        }
        let growth = LEAST_GROWTH.max(self.rewritten_len / 3);
        let saved = match self.must_rewrite || self.len > self.rewritten_len + growth {
            true => self.rewrite(state),
            false => self.write_frame(),
        };
        // After a partial write, nothing can be appended.
        self.must_rewrite = saved.is_err();
        saved.map_err(|source| PositionError::File {
            path: self.path.clone(),
            source,
        })?;
        self.next = Frame::default();
        Ok(())
    }

    fn write_frame(&mut self) -> io::Result<()> {
        let bytes = self.next.finish()?;
        // Truncates to the valid length: a crash may have left part of a frame.
        self.file.set_len(self.len)?;
        self.file.seek(SeekFrom::Start(self.len))?;
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Writes a new file and durably replaces the old one.
    fn rewrite(&mut self, state: impl FnOnce(&mut dyn FnMut(&str, &Record<'_>))) -> io::Result<()> {
        let mut frame = Frame::default();
        state(&mut |stream, record| frame.push(stream, record));
        let mut bytes = MAGIC.to_vec();
        bytes.extend(frame.finish()?);
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = directory.join(name);
        let mut file = File::create(&new)?;
        lock(&file)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        fs::rename(&new, &self.path)?;
        // The rename itself must survive a crash.
        File::open(directory)?.sync_all()?;
        self.file = file;
        self.len = bytes.len() as u64;
        self.rewritten_len = self.len;
        Ok(())
    }
}

impl Drop for Log {
    /// Releases the lock explicitly. Closing the file is not enough: a child process that is being spawned elsewhere in
    /// this program holds a copy of the descriptor until it executes its own program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Records that are written together.
#[derive(Debug, Default)]
struct Frame {
    records: Vec<u8>,
    stream: Box<str>,
}

impl Frame {
    fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn push(&mut self, stream: &str, record: &Record<'_>) {
        if *self.stream != *stream {
            self.stream = stream.into();
            self.encode(&Entry::Stream(stream));
        }
        // The encoding of `Entry::Record(record)`, without moving the record.
        self.records.push(1);
        self.encode(record);
    }

    fn encode(&mut self, value: &impl Serialize) {
        let bytes = std::mem::take(&mut self.records);
        self.records = postcard::to_extend(value, bytes).expect("plain data can be encoded into memory");
    }

    fn finish(&self) -> io::Result<Vec<u8>> {
        let length = u32::try_from(self.records.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(FRAME_HEAD + self.records.len());
        bytes.extend(length.to_le_bytes());
        bytes.extend(crc32fast::hash(&self.records).to_le_bytes());
        bytes.extend(&self.records);
        Ok(bytes)
    }
}

/// Opens the file and locks it. `None` if another process holds the lock.
fn open_locked(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if !lock(&file)? {
            return Ok(None);
        }
        // Another process may have replaced the file before it ended; then the lock is on the old one.
        if is_same_file(&file, path)? {
            return Ok(Some(file));
        }
    }
}

/// Takes the lock; `false` if another process holds it. File systems without locks always succeed.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (ours, theirs) = (file.metadata()?, fs::metadata(path));
    Ok(theirs.is_ok_and(|theirs| (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())))
}

#[cfg(not(unix))]
fn is_same_file(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Passes the records of a file to `each`. Returns its valid length, or the offset of the damage.
fn read_frames(bytes: &[u8], mut each: impl FnMut(&str, Record<'_>)) -> Result<usize, usize> {
    let mut at = MAGIC.len();
    while let Some(length) = frame_length(&bytes[at..]) {
        let frame = &bytes[at..at + FRAME_HEAD + length];
        let (head, records) = frame.split_at(FRAME_HEAD);
        if crc32fast::hash(records).to_le_bytes() != head[4..] {
            let is_last = at + frame.len() == bytes.len();
            let is_unwritten = bytes[at..].iter().all(|byte| *byte == 0);
            return if is_last || is_unwritten { Ok(at) } else { Err(at) };
        }
        read_records(records, &mut each).ok_or(at)?;
        at += frame.len();
    }
    Ok(at)
}

/// The length of the file after its last rewrite, which leaves one frame.
fn rewritten_len(bytes: &[u8]) -> usize {
    let frames = bytes.get(MAGIC.len()..).unwrap_or_default();
    MAGIC.len() + frame_length(frames).map_or(0, |length| FRAME_HEAD + length)
}

/// The length of the frame that starts here; `None` if it is truncated. Empty frames are never written.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    (bytes.len() >= FRAME_HEAD + length && length > 0).then_some(length)
}

fn read_records(mut records: &[u8], each: &mut impl FnMut(&str, Record<'_>)) -> Option<()> {
    let mut stream = "";
    while !records.is_empty() {
        let (entry, rest) = postcard::take_from_bytes(records).ok()?;
        match entry {
            Entry::Stream(name) => stream = name,
            Entry::Record(record) => each(stream, record),
        }
        records = rest;
    }
    Some(())
}

/// Passes the content of a file of the first format to `each`. An empty file has none, and neither has a header
/// truncated by a crash before the first save.
fn read_first_format(bytes: &[u8], mut each: impl FnMut(&str, Record<'_>)) -> Result<(), serde_json::Error> {
    if MAGIC.starts_with(bytes) {
        return Ok(());
    }
    let versions: BTreeMap<String, ResourceVersion> = serde_json::from_slice(bytes)?;
    for (stream, version) in &versions {
        match stream.as_str() {
            CLUSTER => each("", Record::Cluster(version.as_str())),
            stream => each(stream, Record::Reached(version.as_str().into())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
