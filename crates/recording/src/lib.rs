//! Recordings of a cluster: what was listed and watched, in a file that can be read as of any time.
//!
//! ```text
//! client ─▶ Follow ─▶ Recorder ─▶ Writer ─▶ file ─▶ Recording ─▶ entries, state at a time, versions of an object
//! ```
//!
//! In reading order: [`entry`](Entry) (what a recording tells), [`Recording`] (reads it), [`State`] (what there is at a
//! moment), [`Writer`] (appends to it), [`Recorder`] (fills it from a cluster). On disk: `segments`, `frame`, `record`, `delta`.
//!
//! Questions people ask: [`changes`] (which fields differ), [`Update`] (those that matter, and who wrote them), and the
//! versions of an object, the difference of two moments and when a condition came true, on [`Recording`].
//!
//! A cluster that is not recorded still remembers some minutes: [`LiveObjects`] answers the same questions from them.
//!
//! A recording is append-only. It says what it does not know: a [`Gap`] stands where events are missing. It never
//! replays anything itself; that is the crate `watchkeeper-replay`.

mod changes;
mod delta;
mod entry;
mod error;
mod frame;
mod past;
mod reader;
mod record;
mod recorder;
mod redact;
mod search;
mod segments;
mod state;
mod update;
mod writer;

pub use changes::{Change, FieldPath, PathStep, changes};
pub use entry::{ClusterIdentity, Entry, Gap, Header, Stream, What};
pub use error::RecordingError;
pub use past::{LiveObjects, Past, PastError};
pub use reader::{Entries, Moment, Recording};
pub use recorder::{FLUSH_EVERY, RecordError, RecordOptions, Recorded, Recorder, Summary};
pub use redact::{RedactPathError, Redaction};
pub use search::{ObjectDiff, Span, became};
pub use state::{State, StreamState};
pub use update::{Author, Update};
pub use writer::{BLOCK_BYTES, Rotation, Writer};
