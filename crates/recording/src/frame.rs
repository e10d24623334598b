//! The format of a segment on disk: a line with the format version, then frames.
//!
//! ```text
//! watchkeeper recording 1\n
//! ┌ length u32 ┬ CRC-32 u32 ┬ kind u8 ┬ payload ┐   header: JSON
//! ├────────────┼────────────┼─────────┼─────────┤   block: time u64, length u32, deflated records
//! └────────────┴────────────┴─────────┴─────────┘   …
//! ```
//!
//! Numbers are little-endian; the checksum covers kind and payload. A frame is written with one call. The last frame
//! may be incomplete, because it is being written or the writer has crashed; readers stop before it. An invalid frame
//! followed by complete ones is damage.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::RecordingError;

/// The current format, and so far the only one.
pub(crate) const FORMAT: u32 = 1;

const NAME: &str = "watchkeeper recording ";

/// Length, checksum and kind.
const HEAD_BYTES: usize = 9;

/// The largest payload. Blocks have 64 KiB and at most one object more.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// The largest block that is looked for behind an invalid frame, and how many bytes are compared with checksums then.
const MAX_SOUGHT_BYTES: usize = 4 << 20;
const MAX_COMPARED_BYTES: usize = 1 << 30;

/// The largest size of an inflated block.
const MAX_BLOCK_BYTES: usize = 64 << 20;

/// Level 9 takes twice as long for 2 %.
const LEVEL: Compression = Compression::new(6);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    Header = 0,
    Block = 1,
}

/// A decoded frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// JSON text.
    Header(Vec<u8>),
    /// Records, and the time in milliseconds that their times are relative to.
    Block { base: u64, records: Vec<u8> },
}

/// The first line of a segment.
pub(crate) fn magic() -> String {
    format!("{NAME}{FORMAT}\n")
}

/// Encodes a frame.
pub(crate) fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_BYTES + payload.len());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum(kind as u8, payload).to_le_bytes());
    out.push(kind as u8);
    out.extend_from_slice(payload);
    out
}

/// Encodes a block of records.
pub(crate) fn block(base: u64, records: &[u8]) -> io::Result<Vec<u8>> {
    let mut payload = Vec::with_capacity(records.len() / 4 + 12);
    payload.extend_from_slice(&base.to_le_bytes());
    payload.extend_from_slice(&(records.len() as u32).to_le_bytes());
    let mut deflate = DeflateEncoder::new(payload, LEVEL);
    deflate.write_all(records)?;
    Ok(frame(FrameKind::Block, &deflate.finish()?))
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}

/// The start of a frame.
struct Head {
    length: usize,
    checksum: u32,
    kind: u8,
}

impl Head {
    fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [l0, l1, l2, l3, c0, c1, c2, c3, kind] = *bytes;
        Self {
            length: u32::from_le_bytes([l0, l1, l2, l3]) as usize,
            checksum: u32::from_le_bytes([c0, c1, c2, c3]),
            kind,
        }
    }

    fn fits(&self, payload: &[u8]) -> bool {
        checksum(self.kind, payload) == self.checksum
    }
}

/// Reads the complete frames of a segment.
#[derive(Debug)]
pub(crate) struct Frames {
    path: PathBuf,
    file: Source,
    /// The position of the next frame.
    at: u64,
    length: u64,
}

/// The input of a segment.
#[derive(Debug)]
enum Source {
    File(BufReader<File>),
    Memory(Cursor<Vec<u8>>),
}

impl io::Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Memory(bytes) => bytes.read(buffer),
        }
    }
}

impl Frames {
    /// Opens a segment and checks its first line.
    pub(crate) fn open(path: &Path) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Self::new(path, Source::File(BufReader::new(file)), length)
    }

    /// Reads a segment from memory; `path` is for errors.
    pub(crate) fn of_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self, RecordingError> {
        let length = bytes.len() as u64;
        Self::new(path, Source::Memory(Cursor::new(bytes)), length)
    }

    fn new(path: &Path, mut file: Source, length: u64) -> Result<Self, RecordingError> {
        let failed = |source| RecordingError::Read {
            path: path.to_owned(),
            source,
        };
        let expected = magic();
        let mut found = Vec::new();
        let mut line = file.by_ref().take(expected.len() as u64);
        line.read_to_end(&mut found).map_err(failed)?;
        if found != expected.as_bytes() {
            return Err(not_this_format(path, &found));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            at: found.len() as u64,
            length,
        })
    }

    /// The end of the last complete frame.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next complete frame; `None` at the end, and before an incomplete one.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, RecordingError> {
        let left = self.length - self.at;
        if left < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; HEAD_BYTES];
        self.read(&mut bytes)?;
        let head = Head::read(&bytes);
        let length = head.length;
        let end = self.at + (HEAD_BYTES + length) as u64;
        if end > self.length {
            return match self.is_followed_by_block()? {
                false => Ok(None),
                true => Err(self.damaged(format!("a frame of {length} bytes, and blocks within it"))),
            };
        }
        if length > MAX_FRAME_BYTES {
            return Err(self.damaged(format!("a frame of {length} bytes")));
        }
        let mut payload = vec![0; length];
        self.read(&mut payload)?;
        if !head.fits(&payload) {
            // After a crash, the end of a file may have any content.
            return match end == self.length || self.is_zero_from(&bytes, &payload)? {
                true => Ok(None),
                false => Err(self.damaged("the checksum does not match".to_owned())),
            };
        }
        let frame = self.open_frame(head.kind, payload)?;
        self.at = end;
        Ok(Some(frame))
    }

    fn open_frame(&self, kind: u8, payload: Vec<u8>) -> Result<Frame, RecordingError> {
        match kind {
            0 => Ok(Frame::Header(payload)),
            1 => inflate(&payload).map_err(|reason| self.damaged(reason)),
            other => Err(self.damaged(format!("a frame of unknown kind {other}"))),
        }
    }

    /// True if the rest of the file has a complete block: then the frame before it is damaged, not incomplete.
    fn is_followed_by_block(&mut self) -> Result<bool, RecordingError> {
        let mut rest = Vec::new();
        let left = (self.length - self.at - HEAD_BYTES as u64).min(MAX_FRAME_BYTES as u64);
        let read = self.file.by_ref().take(left).read_to_end(&mut rest);
        read.map_err(|source| self.failed(source))?;
        let mut compared = 0;
        for start in 0..rest.len() {
            let Some((head, rest)) = rest[start..].split_first_chunk() else {
                break;
            };
            let head = Head::read(head);
            let is_block = head.kind == FrameKind::Block as u8 && head.length <= MAX_SOUGHT_BYTES;
            let Some(payload) = rest.get(..head.length).filter(|_| is_block) else {
                continue;
            };
            compared += payload.len();
            if head.fits(payload) || compared > MAX_COMPARED_BYTES {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the rest of the file is zeros: space that was allocated but never written before a crash.
    fn is_zero_from(&mut self, head: &[u8], payload: &[u8]) -> Result<bool, RecordingError> {
        if head.iter().chain(payload).any(|&byte| byte != 0) {
            return Ok(false);
        }
        let mut buffer = [0; 4096];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) if buffer[..count].iter().all(|&byte| byte == 0) => {}
                Ok(_) => return Ok(false),
                Err(source) => return Err(self.failed(source)),
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), RecordingError> {
        let read = self.file.read_exact(buffer);
        read.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> RecordingError {
        RecordingError::Read {
            path: self.path.clone(),
            source,
        }
    }

    pub(crate) fn damaged(&self, reason: String) -> RecordingError {
        RecordingError::Damaged {
            path: self.path.clone(),
            at: self.at,
            reason,
        }
    }
}

fn not_this_format(path: &Path, found: &[u8]) -> RecordingError {
    let path = path.to_owned();
    let text = String::from_utf8_lossy(found);
    match text.strip_prefix(NAME) {
        Some(version) if !version.is_empty() => RecordingError::Format {
            path,
            found: version.trim_end().to_owned(),
            supported: FORMAT,
        },
        _ => RecordingError::Foreign { path },
    }
}

fn inflate(payload: &[u8]) -> Result<Frame, String> {
    let (base, rest) = payload.split_first_chunk::<8>().ok_or("a block without a time")?;
    let (length, deflated) = rest.split_first_chunk::<4>().ok_or("a block without a length")?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_BLOCK_BYTES {
        return Err(format!("a block of {length} bytes"));
    }
    let mut records = Vec::with_capacity(length);
    let mut deflate = DeflateDecoder::new(deflated).take(length as u64 + 1);
    let read = deflate.read_to_end(&mut records);
    read.map_err(|error| format!("a block that cannot be inflated: {error}"))?;
    if records.len() != length {
        return Err("a block of another length than stated".to_owned());
    }
    Ok(Frame::Block {
        base: u64::from_le_bytes(*base),
        records,
    })
}
