//! Writes a recording: collects records into blocks, appends blocks to a segment, and rotates segments.
//!
//! A block is written when it has [`BLOCK_BYTES`], or when the caller flushes. A failed write leaves the file as it
//! was; flushed data are never lost.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_meta::{ObjectKey, ResourceVersion, Time};
use watchkeeper_runtime::follow::{FollowEvent, Gone};
use watchkeeper_runtime::position::Position;
use watchkeeper_wire::{Object, ObjectOptions};

use crate::RecordingError;
use crate::delta;
use crate::entry::{ClusterIdentity, Header, Stream};
use crate::frame::{self, FrameKind};
use crate::reader::Recording;
use crate::record::{Body, Record, Timed};
use crate::segments;
use crate::state::{State, StreamState};

/// The size of the records in a block.
pub const BLOCK_BYTES: usize = 64 << 10;

/// The rotation of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The size of the events with which a segment ends; the state that it begins with does not count. 256 MiB by
    /// default.
    pub bytes: u64,
    /// The age at which a segment ends.
    pub age: Option<Duration>,
    /// The number of segments to keep; older ones are deleted.
    pub keep: Option<u32>,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            age: None,
            keep: None,
        }
    }
}

/// A recording being written.
#[derive(Debug)]
pub struct Writer {
    first: PathBuf,
    rotation: Rotation,
    header: Header,
    file: File,
    /// The length of the complete frames of the segment.
    length: u64,
    /// The part of it that the segment began with.
    initial: u64,
    state: State,
    /// The numbers of streams in the segment.
    numbers: BTreeMap<Arc<str>, u32>,
    next_number: u32,
    block: Vec<u8>,
    /// The time of the block's first record.
    base: u64,
    latest: u64,
    count: u64,
}

impl Writer {
    /// Starts a recording, or continues an existing one. The file is locked until the writer is dropped.
    ///
    /// An incomplete frame at the end, left by a crash, is cut off.
    pub fn open(
        path: impl Into<PathBuf>,
        cluster: &ClusterIdentity,
        redacted: &[String],
        rotation: Rotation,
        now: Time,
    ) -> Result<Self, RecordingError> {
        let first = path.into();
        let header = |segment| Header {
            cluster: cluster.clone(),
            began: now,
            segment,
            redacted: redacted.to_vec(),
        };
        let Some((segment, path)) = segments::find(&first)?.pop() else {
            let (file, length) = create(&first, &header(1))?;
            return Ok(Self::new(first, rotation, header(1), file, length));
        };
        let file = lock(&path)?;
        let recording = Recording::open(&path)?;
        if let (Some(theirs), Some(ours)) = (&recording.header().cluster.id, &cluster.id)
            && theirs != ours
        {
            return Err(RecordingError::OtherCluster {
                path: path.clone(),
                theirs: theirs.clone(),
                ours: ours.clone(),
            });
        }
        let mut entries = recording.entries();
        let mut latest = 0;
        for entry in entries.by_ref() {
            latest = millis(entry?.time);
        }
        let (state, numbers, length) = entries.into_parts();
        let failed = write_failed(&path);
        file.set_len(length).map_err(failed)?;
        let header = Header {
            began: recording.header().began,
            ..header(segment)
        };
        let mut writer = Self::new(first, rotation, header, file, length);
        writer.next_number = numbers.values().map(|number| number + 1).max().unwrap_or(0);
        (writer.numbers, writer.state, writer.latest) = (numbers, state, latest);
        Ok(writer)
    }

    fn new(first: PathBuf, rotation: Rotation, header: Header, file: File, length: u64) -> Self {
        Self {
            first,
            rotation,
            header,
            file,
            length,
            initial: 0,
            state: State::default(),
            numbers: BTreeMap::new(),
            next_number: 0,
            block: Vec::new(),
            base: 0,
            latest: 0,
            count: 0,
        }
    }

    /// The state of the streams after all writes.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The position from which a follower continues without gap or repetition.
    pub fn position(&self) -> Position {
        self.state.position()
    }

    /// The number of object events written since it was opened.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The file currently written.
    pub fn path(&self) -> PathBuf {
        segments::path_of(&self.first, self.header.segment)
    }

    /// Starts a stream. One that is in the recording already continues.
    pub fn begin(&mut self, time: Time, stream: &Arc<Stream>) -> Result<(), RecordingError> {
        if self.state.stream(&stream.name).is_some() {
            return Ok(());
        }
        let id = self.next_number;
        self.next_number += 1;
        self.numbers.insert(stream.name.clone(), id);
        self.state.begin(stream.clone());
        let stream = stream.to_record();
        self.append(time, Record::Stream { id, stream })
    }

    /// Ends a stream.
    pub fn end(&mut self, time: Time, stream: &str, reason: &str) -> Result<(), RecordingError> {
        let Some(id) = self.numbers.remove(stream) else {
            return Ok(());
        };
        self.state.end(stream);
        self.append(time, Record::Ended { stream: id, reason })
    }

    /// Records a failure of a stream.
    pub fn fail(&mut self, time: Time, stream: &str, reason: &str) -> Result<(), RecordingError> {
        match self.numbers.get(stream) {
            Some(&stream) => self.append(time, Record::Failed { stream, reason }),
            None => Ok(()),
        }
    }

    /// Records an event of a started stream; events of others are ignored.
    pub fn event(&mut self, time: Time, stream: &str, event: &FollowEvent) -> Result<(), RecordingError> {
        let Some(&id) = self.numbers.get(stream) else {
            return Ok(());
        };
        match event {
            FollowEvent::Added(object) => self.put(time, (id, stream), object, true),
            FollowEvent::Modified(object) => self.put(time, (id, stream), object, false),
            FollowEvent::Deleted(gone) => self.gone(time, (id, stream), gone),
            FollowEvent::Synced(version) => {
                self.note(stream, |held| held.sync(version.clone()));
                let version = version.as_str();
                self.append(time, Record::Synced { stream: id, version })
            }
            FollowEvent::Bookmark(version) => {
                self.note(stream, |held| held.progress(version.clone()));
                let version = version.as_str();
                self.append(time, Record::Progress { stream: id, version })
            }
            FollowEvent::Restarted(restart) => {
                self.note(stream, |held| held.gap(restart.from.clone()));
                let record = Record::Gap {
                    stream: id,
                    from: restart.from.as_ref().map(ResourceVersion::as_str),
                    to: restart.to.as_ref().map(ResourceVersion::as_str),
                    reason: &restart.reason,
                };
                self.append(time, record)
            }
        }
    }

    fn note(&mut self, stream: &str, change: impl FnOnce(&mut StreamState)) {
        if let Some(held) = self.state.stream_mut(stream) {
            change(held);
        }
    }

    fn put(
        &mut self,
        time: Time,
        (number, stream): (u32, &str),
        object: &Object,
        is_new: bool,
    ) -> Result<(), RecordingError> {
        let object = whole(stream, object)?;
        let (key, previous) = (object.key(), self.held(stream, &object.key()));
        let body = Coded::of(&object, previous.as_ref());
        let record = Record::Put {
            stream: number,
            is_new: is_new || previous.is_none(),
            key: key.as_str(),
            body: body.body(),
        };
        self.note(stream, |held| drop(held.put(object.clone())));
        self.count += 1;
        self.append(time, record)
    }

    fn gone(&mut self, time: Time, (number, stream): (u32, &str), gone: &Gone) -> Result<(), RecordingError> {
        let last = gone.last.as_ref().map(|last| whole(stream, last));
        let last = last.transpose()?;
        let previous = self.held(stream, &gone.key);
        if last.is_none() && previous.is_none() {
            return Ok(());
        }
        let body = last.as_ref().map(|last| Coded::of(last, previous.as_ref()));
        let record = Record::Gone {
            stream: number,
            key: gone.key.as_str(),
            last: body.as_ref().map(Coded::body),
        };
        self.note(stream, |held| drop(held.remove(&gone.key, last.as_ref())));
        self.count += 1;
        self.append(time, record)
    }

    fn held(&self, stream: &str, key: &ObjectKey) -> Option<Object> {
        self.state.stream(stream)?.objects.get(key).cloned()
    }

    fn append(&mut self, time: Time, record: Record<'_>) -> Result<(), RecordingError> {
        // If the clock is set back, the times of the recording do not go back.
        self.latest = self.latest.max(millis(time));
        let far = u64::from(u32::MAX);
        if self.block.len() >= BLOCK_BYTES || (!self.block.is_empty() && self.latest - self.base > far) {
            self.flush_block()?;
        }
        if self.block.is_empty() {
            self.base = self.latest;
        }
        let timed = Timed {
            after: (self.latest - self.base) as u32,
            record,
        };
        self.push(&timed)
    }

    fn push(&mut self, timed: &Timed<'_>) -> Result<(), RecordingError> {
        let path = self.path();
        let block = std::mem::take(&mut self.block);
        let written = postcard::to_extend(timed, block);
        self.block = written.map_err(|error| RecordingError::Write {
            path,
            source: io::Error::other(error),
        })?;
        Ok(())
    }

    /// Writes the pending block. Afterwards readers see it, and it survives the end of the process.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.flush_block()?;
        let age = Duration::from_millis(self.latest.saturating_sub(millis(self.header.began)));
        let is_old = self.rotation.age.is_some_and(|limit| age >= limit);
        match self.length - self.initial >= self.rotation.bytes || is_old {
            true => self.rotate(),
            false => Ok(()),
        }
    }

    /// Syncs everything flushed to disk, so that it survives a crash of the machine.
    pub fn sync(&mut self) -> Result<(), RecordingError> {
        self.flush()?;
        let failed = write_failed(&self.path());
        self.file.sync_data().map_err(failed)
    }

    fn flush_block(&mut self) -> Result<(), RecordingError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let path = self.path();
        let failed = write_failed(&path);
        let frame = frame::block(self.base, &self.block).map_err(&failed)?;
        if let Err(source) = self.file.write_all(&frame) {
            // Removes the torn end, so that appending can continue. If that fails too, the next reader skips it.
            let _ = self.file.set_len(self.length);
            return Err(failed(source));
        }
        self.length += frame.len() as u64;
        self.block.clear();
        Ok(())
    }

    /// Starts the next segment with the current state of the streams. It gets its name when it is whole, so a full disk
    /// or a crash leaves the recording as it was.
    fn rotate(&mut self) -> Result<(), RecordingError> {
        self.sync_file()?;
        let header = Header {
            segment: self.header.segment + 1,
            began: time_of(self.latest),
            ..self.header.clone()
        };
        let path = segments::path_of(&self.first, header.segment);
        let unfinished = segments::unfinished(&path);
        let _ = std::fs::remove_file(&unfinished);
        let (file, length) = create(&unfinished, &header)?;
        let mut next = Self::new(self.first.clone(), self.rotation, header, file, length);
        (next.base, next.latest, next.count) = (self.latest, self.latest, self.count);
        let written = next.checkpoint(&self.state).and_then(|()| next.sync_file());
        let renamed = written.and_then(|()| std::fs::rename(&unfinished, &path).map_err(write_failed(&path)));
        if let Err(error) = renamed {
            next.block.clear();
            let _ = std::fs::remove_file(&unfinished);
            return Err(error);
        }
        next.initial = next.length;
        next.state = std::mem::take(&mut self.state);
        *self = next;
        self.forget_old()
    }

    fn sync_file(&self) -> Result<(), RecordingError> {
        self.file.sync_data().map_err(write_failed(&self.path()))
    }

    fn checkpoint(&mut self, state: &State) -> Result<(), RecordingError> {
        self.numbers.clear();
        self.next_number = 0;
        for held in state.streams() {
            let id = self.next_number;
            self.next_number += 1;
            self.numbers.insert(held.stream.name.clone(), id);
            self.push_now(Record::Stream {
                id,
                stream: held.stream.to_record(),
            })?;
            for (key, object) in &held.objects {
                self.push_now(Record::Held {
                    stream: id,
                    key: key.as_str(),
                    body: Body::Whole(object.bytes()),
                })?;
            }
            self.push_now(Record::Reached {
                stream: id,
                version: held.version.as_str(),
                is_complete: held.is_complete,
                is_listing: held.is_listing,
            })?;
        }
        self.flush_block()
    }

    fn push_now(&mut self, record: Record<'_>) -> Result<(), RecordingError> {
        self.push(&Timed { after: 0, record })?;
        match self.block.len() >= BLOCK_BYTES {
            true => self.flush_block(),
            false => Ok(()),
        }
    }

    fn forget_old(&self) -> Result<(), RecordingError> {
        let Some(keep) = self.rotation.keep else {
            return Ok(());
        };
        let oldest = self.header.segment.saturating_sub(keep.max(1));
        for (number, path) in segments::find(&self.first)? {
            if number <= oldest {
                std::fs::remove_file(&path).map_err(write_failed(&path))?;
            }
        }
        Ok(())
    }
}

impl Drop for Writer {
    /// Flushes the pending block, unless the disk is full. The lock is released explicitly: closing the file is not
    /// enough while a child process that is being spawned elsewhere in this program holds a copy of the descriptor.
    fn drop(&mut self) {
        let _ = self.flush_block();
        let _ = self.file.unlock();
    }
}

/// The encoded object.
enum Coded<'a> {
    Whole(&'a [u8]),
    Delta(Vec<u8>),
}

impl<'a> Coded<'a> {
    fn of(object: &'a Object, previous: Option<&Object>) -> Self {
        match previous {
            Some(previous) => Self::Delta(delta::encode(previous.bytes(), object.bytes())),
            None => Self::Whole(object.bytes()),
        }
    }

    fn body(&self) -> Body<'_> {
        match self {
            Self::Whole(bytes) => Body::Whole(bytes),
            Self::Delta(bytes) => Body::Delta(bytes),
        }
    }
}

/// The object as JSON with its type, as it is written.
fn whole(stream: &str, object: &Object) -> Result<Object, RecordingError> {
    let failed = |source| RecordingError::Object {
        resource: stream.to_owned(),
        source,
    };
    let json = object.to_json().map_err(failed)?;
    if std::ptr::eq(json.as_ptr(), object.bytes().as_ptr()) {
        return Ok(object.clone());
    }
    let keep = ObjectOptions {
        keep_managed_fields: true,
    };
    Object::from_json(&json, &keep).map_err(failed)
}

fn create(path: &Path, header: &Header) -> Result<(File, u64), RecordingError> {
    let failed = write_failed(path);
    let mut options = OpenOptions::new();
    let mut file = options
        .append(true)
        .create_new(true)
        .open(path)
        .map_err(&failed)?;
    try_lock(&file, path)?;
    let header = serde_json::to_vec(header).map_err(|error| failed(error.into()))?;
    let start = [
        frame::magic().as_bytes(),
        &frame::frame(FrameKind::Header, &header),
    ]
    .concat();
    if let Err(source) = file.write_all(&start) {
        // An incomplete file would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
        return Err(failed(source));
    }
    Ok((file, start.len() as u64))
}

fn lock(path: &Path) -> Result<File, RecordingError> {
    let mut options = OpenOptions::new();
    let file = options.append(true).open(path).map_err(write_failed(path))?;
    try_lock(&file, path)?;
    Ok(file)
}

fn try_lock(file: &File, path: &Path) -> Result<(), RecordingError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(RecordingError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(write_failed(path)(source)),
    }
}

fn write_failed(path: &Path) -> impl Fn(io::Error) -> RecordingError + use<> {
    let path = path.to_owned();
    move |source| RecordingError::Write {
        path: path.clone(),
        source,
    }
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn millis(time: Time) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let nanos = u64::try_from(time.nanos).unwrap_or(0);
    seconds.saturating_mul(1000) + nanos / 1_000_000
}

pub(crate) fn time_of(millis: u64) -> Time {
    Time {
        seconds: i64::try_from(millis / 1000).unwrap_or(i64::MAX),
        nanos: (millis % 1000) as i32 * 1_000_000,
    }
}
