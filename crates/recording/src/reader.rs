//! Reads a recording, even while it is being written.
//!
//! ```no_run
//! use watchkeeper_recording::{Moment, Recording, What};
//!
//! let recording = Recording::open("incident.rec")?;
//! for entry in recording.entries() {
//!     let entry = entry?;
//!     if let What::Modified { object, .. } = &entry.what {
//!         println!("{} {} {}", entry.time, entry.stream, object.key());
//!     }
//! }
//! let before = recording.state_at(&Moment::Time("2026-11-17T12:00:00Z".parse()?))?;
//! println!("{} objects at noon", before.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use watchkeeper_meta::{ParseTimeError, Time};

use crate::RecordingError;
use crate::entry::{Entry, Header, Stream, What};
use crate::frame::{Frame, Frames};
use crate::record::{Record, Timed};
use crate::segments;
use crate::state::{self, State};
use crate::writer::time_of;

/// A recording on disk.
#[derive(Clone, Debug)]
pub struct Recording {
    segments: Vec<PathBuf>,
    header: Header,
}

/// A moment in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Everything received by this time.
    Time(Time),
    /// Everything up to this version. Versions of a cluster are shared by all its resources.
    Revision(u64),
    /// The end of the recording.
    End,
}

impl Recording {
    /// Opens a recording by the path of its first file, which may have been deleted if later segments exist.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let mut segments: Vec<_> = segments::find(path)?.into_iter().map(|(_, path)| path).collect();
        if segments.is_empty() {
            segments.push(path.to_owned());
        }
        let mut frames = Frames::open(&segments[0])?;
        let header = header(&mut frames)?;
        Ok(Self { segments, header })
    }

    /// The header of the first segment.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All entries, in the order in which the recorder received them. Ends before an incomplete frame, which a crash
    /// cut off or which is being written.
    ///
    /// Damage is returned as an error at its position. Reading continues with the next segment, if there is one.
    pub fn entries(&self) -> Entries {
        Entries {
            segments: self.segments.clone().into(),
            open: None,
            state: State::default(),
            numbers: BTreeMap::new(),
            carries_over: false,
        }
    }

    /// The error of a recording without entries.
    pub fn empty(&self) -> RecordingError {
        RecordingError::Empty {
            path: self.segments[0].clone(),
        }
    }

    /// All objects at a moment.
    pub fn state_at(&self, moment: &Moment) -> Result<State, RecordingError> {
        let mut state = State::default();
        for entry in self.entries() {
            let entry = entry?;
            match moment.is_before(&entry) {
                false => state.take(&entry),
                // Entries are ordered by time, not by version.
                true if matches!(moment, Moment::Time(_)) => break,
                true => {}
            }
        }
        Ok(state)
    }
}

impl Moment {
    /// True if an entry is later than this moment.
    pub fn is_before(&self, entry: &Entry) -> bool {
        match self {
            Self::Time(time) => entry.time > *time,
            Self::Revision(revision) => entry.revision.is_some_and(|found| found > *revision),
            Self::End => false,
        }
    }
}

/// `2026-11-17T12:00:00Z`, a version as a number, or `end`.
impl FromStr for Moment {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "end" {
            return Ok(Self::End);
        }
        match text.parse() {
            Ok(revision) => Ok(Self::Revision(revision)),
            Err(_) => text.parse().map(Self::Time),
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{time}"),
            Self::Revision(revision) => write!(f, "version {revision}"),
            Self::End => f.write_str("the end"),
        }
    }
}

/// The entries of a recording.
#[derive(Debug)]
pub struct Entries {
    segments: VecDeque<PathBuf>,
    open: Option<Open>,
    state: State,
    /// The streams by their numbers in the open segment.
    numbers: BTreeMap<u32, Arc<Stream>>,
    /// True if an earlier segment was read, so that the initial state of the next one is known.
    carries_over: bool,
}

/// A segment being read.
#[derive(Debug)]
struct Open {
    frames: Frames,
    base: u64,
    records: Vec<u8>,
    /// The bytes read of the records.
    read: usize,
}

impl Open {
    fn new(frames: Frames) -> Self {
        Self {
            frames,
            base: 0,
            records: Vec::new(),
            read: 0,
        }
    }
}

impl Entries {
    /// Reads one segment from memory.
    pub fn of_bytes(bytes: Vec<u8>) -> Result<Self, RecordingError> {
        let mut frames = Frames::of_bytes(Path::new("memory"), bytes)?;
        header(&mut frames)?;
        Ok(Self {
            segments: VecDeque::new(),
            open: Some(Open::new(frames)),
            state: State::default(),
            numbers: BTreeMap::new(),
            carries_over: false,
        })
    }

    /// The state after the last entry.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state after the last entry, the numbers of streams in the last segment, and the end of its last complete
    /// frame.
    pub(crate) fn into_parts(self) -> (State, BTreeMap<Arc<str>, u32>, u64) {
        let length = self.open.map_or(0, |open| open.frames.position());
        let numbers = self.numbers.into_iter();
        let numbers = numbers.map(|(number, stream)| (stream.name.clone(), number));
        (self.state, numbers.collect(), length)
    }

    fn read(&mut self) -> Result<Option<Entry>, RecordingError> {
        loop {
            if self.open.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(open) = &mut self.open else {
                return Ok(None);
            };
            if open.read < open.records.len() {
                if let Some(entry) = self.read_record()? {
                    return Ok(Some(entry));
                }
                continue;
            }
            match open.frames.next()? {
                Some(Frame::Block { base, records }) => {
                    (open.base, open.records, open.read) = (base, records, 0)
                }
                Some(Frame::Header(_)) => {}
                None if self.segments.is_empty() => return Ok(None),
                None => self.open = None,
            }
        }
    }

    /// Opens the next segment; false if there is none.
    fn open_next(&mut self) -> Result<bool, RecordingError> {
        let Some(path) = self.segments.pop_front() else {
            return Ok(false);
        };
        let frames = Frames::open(&path)?;
        self.carries_over = self.state.streams().next().is_some();
        self.numbers.clear();
        self.open = Some(Open::new(frames));
        Ok(true)
    }

    fn read_record(&mut self) -> Result<Option<Entry>, RecordingError> {
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        let bytes = &open.records[open.read..];
        let (timed, rest) = postcard::take_from_bytes::<Timed<'_>>(bytes).map_err(|error| {
            open.frames
                .damaged(format!("a record that cannot be read: {error}"))
        })?;
        let time = time_of(open.base.saturating_add(u64::from(timed.after)));
        let told = taken(
            &mut self.state,
            &mut self.numbers,
            &timed.record,
            self.carries_over,
        );
        let told = told.map_err(|reason| open.frames.damaged(reason))?;
        open.read = open.records.len() - rest.len();
        Ok(told.map(|(stream, revision, what)| Entry {
            time,
            revision,
            stream,
            what,
        }))
    }
}

type Told = (Arc<Stream>, Option<u64>, What);

/// Applies a record to the state; `None` if it repeats an earlier segment.
fn taken(
    state: &mut State,
    numbers: &mut BTreeMap<u32, Arc<Stream>>,
    record: &Record<'_>,
    carries_over: bool,
) -> Result<Option<Told>, String> {
    if let Record::Stream { id, stream } = record {
        let stream = Arc::new(Stream::from_record(stream));
        let is_known = carries_over && state.stream(&stream.name).is_some();
        state.begin(stream.clone());
        numbers.insert(*id, stream.clone());
        return Ok((!is_known).then_some((stream, None, What::Began)));
    }
    let number = state::stream_of(record);
    let stream = numbers.get(&number);
    let stream = stream.ok_or_else(|| format!("a record of stream {number}, which has not begun"))?;
    let stream = stream.clone();
    let what = state::apply(state, &stream.name, record, carries_over)?;
    if matches!(what, Some(What::Ended(_))) {
        numbers.remove(&number);
    }
    let Some(what) = what else {
        return Ok(None);
    };
    let held = state.stream(&stream.name);
    let revision = held.and_then(|held| held.revision_of(&what));
    Ok(Some((stream, revision, what)))
}

impl Iterator for Entries {
    type Item = Result<Entry, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            // The rest of a damaged segment has deltas against unknown versions.
            self.open = None;
            self.state = State::default();
        }
        read.transpose()
    }
}

fn header(frames: &mut Frames) -> Result<Header, RecordingError> {
    match frames.next()? {
        Some(Frame::Header(json)) => serde_json::from_slice(&json)
            .map_err(|error| frames.damaged(format!("a header that cannot be read: {error}"))),
        Some(Frame::Block { .. }) => Err(frames.damaged("no header".to_owned())),
        None => Err(RecordingError::Empty {
            path: frames.path().to_owned(),
        }),
    }
}
