//! Recordings of a cluster: lists and watches in a file, from which the state at any time can be read.
//!
//! ```text
//! client ─▶ Follow ─▶ Recorder ─▶ Writer ─▶ file ─▶ Recording ─▶ entries, state at a time, versions of an object
//! ```
//!
//! ```no_run
//! use watchkeeper_client::Client;
//! use watchkeeper_recording::{Moment, RecordOptions, Recorder, Recording};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from_environment()?;
//! let mut recorder = Recorder::start(&client, "incident.rec", RecordOptions::default()).await?;
//! while recorder.is_listing() {
//!     recorder.next().await?;
//! }
//! recorder.finish()?;
//! let end = Recording::open("incident.rec")?.state_at(&Moment::End)?;
//! println!("{} objects", end.len());
//! # Ok(())
//! # }
//! ```
//!
//! In reading order: [`entry`](Entry) (the content of a recording), [`Recording`] (reads it), [`State`] (the objects at
//! a moment), [`Writer`] (appends to it), [`Recorder`] (fills it from a cluster). On disk: `segments`, `frame`,
//! `record`, `delta`.
//! Queries: [`changes`] (the fields that differ), [`Update`] (the relevant ones, and their authors), and on
//! [`Recording`] the versions of an object, the difference between two moments, and the events at which a condition
//! became true.
//! A cluster that is not recorded still has some minutes of history: [`LiveObjects`] answers the same queries from it.
//! In memory, many similar objects are [`Packed`].
//! A recording is append-only. Missing events are marked by a [`Gap`]. The crate `watchkeeper-replay` replays
//! recordings.

mod changes;
mod delta;
mod entry;
mod error;
mod frame;
mod packed;
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
pub use packed::Packed;
pub use past::{LiveObjects, Past, PastError};
pub use reader::{Entries, Moment, Recording};
pub use recorder::{FLUSH_EVERY, RecordError, RecordOptions, Recorded, Recorder, Summary};
pub use redact::{RedactPathError, Redaction};
pub use search::{ObjectDiff, Span, became};
pub use state::{State, StreamState};
pub use update::{Author, Update};
pub use writer::{BLOCK_BYTES, Rotation, Writer};
