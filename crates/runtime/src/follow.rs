//! Several kinds and namespaces in one stream, with a position on disk.
//!
//! In flow watchers, each with a name; out flow their events in the order they arrive, with the name. Asking for the
//! next event says that the last one was handled: only then does the position move. After a restart the stream goes
//! on where handling stopped, deletes included; an event may be seen again after a crash, none is missed. A position
//! that is too old is told as a failure (`too old resource version: 1000 (1080816)`), and a fresh list follows.
//!
//! ```
//! # use std::sync::Arc;
//! # use watchkeeper_runtime::{api_source::ApiSource, position::PositionFile};
//! use watchkeeper_runtime::follow::Follow;
//! use watchkeeper_runtime::watcher::Event;
//! # use watchkeeper_testing::TestCluster;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = TestCluster::start().await?;
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("position.json");
//! # let maps = watchkeeper_wire::schema::resources::by_plural("", "v1", "configmaps").unwrap();
//! # let api = cluster.client().dynamic(maps.resource.clone()).namespace("default");
//! # let source = Arc::new(ApiSource::new(api));
//! let mut follow = Follow::with_position(PositionFile::open(&file)?);
//! follow.add("configmaps", source.clone(), Default::default());
//! while !matches!(follow.next().await?.expect("it goes on").what?, Event::InitDone(_)) {}
//! follow.finish()?; // the list was handled
//!
//! cluster.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}").await?;
//! let mut follow = Follow::with_position(PositionFile::open(&file)?);
//! follow.add("configmaps", source, Default::default());
//! let next = follow.next().await?.expect("it goes on").what?;
//! assert!(matches!(next, Event::Apply(object) if object.name() == "settings"), "and not a list");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::poll_fn;
use tokio::time::Instant;
use watchkeeper_meta::ResourceVersion;
use watchkeeper_wire::Object;

use crate::position::{PositionError, PositionFile};
use crate::reflector::ObjectSource;
use crate::watcher::{Config, Event, Failure, Watcher};

/// The position is written at most this often, because a write waits for the disk. What a crash in between costs is
/// that the events of so long are seen again.
pub const SAVE_EVERY: Duration = Duration::from_millis(200);

/// Several watchers in one stream.
#[derive(Debug)]
pub struct Follow {
    streams: Vec<Stream>,
    position: Option<PositionFile>,
    /// What the caller handles right now: its stream, and the version to note once it is done.
    handling: Option<(usize, ResourceVersion)>,
    saved: Option<Instant>,
    turn: usize,
}

#[derive(Debug)]
struct Stream {
    name: Arc<str>,
    watcher: Watcher<ObjectSource>,
    /// A list is under way: nothing of it counts as handled before its end.
    listing: bool,
}

/// An event, or a failure that is being dealt with.
type What = Result<Event<Object>, Failure>;

/// One thing that happened in one of the streams.
#[derive(Clone, Debug)]
pub struct Followed {
    /// The name of the stream.
    pub stream: Arc<str>,
    /// What happened, or what went wrong and is being dealt with.
    pub what: What,
}

impl Follow {
    /// Follows everything from the beginning; nothing is written down.
    pub fn new() -> Self {
        Self {
            streams: Vec::new(),
            position: None,
            handling: None,
            saved: None,
            turn: 0,
        }
    }

    /// Goes on where the file says each stream was.
    pub fn with_position(position: PositionFile) -> Self {
        Self {
            position: Some(position),
            ..Self::new()
        }
    }

    /// Adds a stream. The name is its place in the file: the kind, the namespace and the selectors, say.
    pub fn add(&mut self, name: &str, source: Arc<ObjectSource>, config: Config) {
        let known = self.position.as_ref().and_then(|position| position.get(name));
        let watcher = match known {
            Some(version) => Watcher::resume_from(source, config, version.clone()),
            None => Watcher::new(source, config),
        };
        self.streams.push(Stream {
            name: name.into(),
            watcher,
            listing: false,
        });
    }

    /// The next event of any stream; the one before counts as handled. `None` once every stream has ended.
    ///
    /// May be dropped at any await without losing an event.
    pub async fn next(&mut self) -> Result<Option<Followed>, PositionError> {
        self.handled();
        if self.saved.is_none_or(|saved| saved.elapsed() >= SAVE_EVERY) {
            self.save()?;
        }
        let received = match tokio::time::timeout(SAVE_EVERY, poll_fn(|context| self.poll(context))).await {
            Ok(received) => received,
            // It is quiet: what was handled last is written down before waiting on.
            Err(_) => {
                self.save()?;
                poll_fn(|context| self.poll(context)).await
            }
        };
        Ok(received.map(|(at, what)| self.pass_on(at, what)))
    }

    /// Writes the position down, the event handed out last included.
    pub fn finish(mut self) -> Result<(), PositionError> {
        self.handled();
        self.save()
    }

    fn pass_on(&mut self, at: usize, what: What) -> Followed {
        let stream = &mut self.streams[at];
        match &what {
            Ok(Event::Init) => stream.listing = true,
            Ok(Event::InitDone(_)) => stream.listing = false,
            _ => {}
        }
        if what.is_ok() && !stream.listing {
            self.handling = Some((at, stream.watcher.version().clone()));
        }
        Followed {
            stream: stream.name.clone(),
            what,
        }
    }

    fn handled(&mut self) {
        if let (Some((at, version)), Some(position)) = (self.handling.take(), &mut self.position) {
            position.advance(&self.streams[at].name, &version);
        }
    }

    fn save(&mut self) -> Result<(), PositionError> {
        self.saved = Some(Instant::now());
        self.position.as_mut().map_or(Ok(()), PositionFile::save)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, What)>> {
        let count = self.streams.len();
        let mut waiting = false;
        for step in 0..count {
            let at = (self.turn + step) % count;
            match self.streams[at].watcher.poll_next_event(context) {
                Poll::Ready(Some(what)) => {
                    self.turn = (at + 1) % count;
                    return Poll::Ready(Some((at, what)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(None) }
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
