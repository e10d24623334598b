//! A position: how far several streams were handled, and the objects they held.
//!
//! A follower records each step after it was handled. At the next start the position has, per stream, the version and
//! an inventory of key, uid and version of every object. The version resumes a watch. If it has expired, the
//! inventory is compared with a new list, which shows what was added, modified and deleted meanwhile.
//!
//! With [`Position::open`] every step is appended to a log on disk. A crash loses at most the steps since the last
//! [`Position::save`]: their events are delivered again, and none is missed.

mod inventory;
mod log;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_wire::Object;

use self::log::{Log, Record};

pub use self::inventory::{Held, Inventory};

/// The reason a position cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PositionError {
    /// The file cannot be read or written.
    #[error("position file {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: io::Error,
    },
    /// The file has another format.
    #[error("{} is not a position file", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: serde_json::Error,
    },
    /// The file was changed by another program, or the disk has lost part of it.
    #[error(
        "position file {} is damaged at byte {at}; remove it to begin with what is there now",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the damage.
        at: usize,
    },
    /// Another process follows with this file.
    #[error("position file {} is in use by another process", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file belongs to another cluster, whose versions have no meaning here.
    #[error(
        "{} is a position in another cluster ({theirs}, this one is {ours}); \
         name another file, or remove it to begin with what is there now",
        path.display()
    )]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// The cluster of the file.
        theirs: Box<str>,
        /// The current cluster.
        ours: Box<str>,
    },
}

/// A position, in memory or in a file.
#[derive(Debug, Default)]
pub struct Position {
    state: State,
    log: Option<Log>,
}

/// The content of a position.
#[derive(Debug, Default)]
struct State {
    cluster: Option<Box<str>>,
    streams: BTreeMap<Box<str>, StreamPosition>,
}

/// The position of one stream, and the objects it held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPosition {
    /// Everything up to this version was handled. Unset while a list is being handled: then only a list can continue.
    pub version: ResourceVersion,
    /// The objects that were reported and not yet reported as deleted.
    pub inventory: Inventory,
    /// True if the inventory is complete: a list was handled to its end. Files of the first format have no inventory.
    pub is_complete: bool,
}

impl Position {
    /// A position without a file.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Opens or creates the file; a missing file is an empty position. The file stays locked until the position is
    /// dropped.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, PositionError> {
        let mut state = State::default();
        let log = Log::open(path.into(), |stream, record| state.apply(stream, record))?;
        Ok(Self {
            state,
            log: Some(log),
        })
    }

    /// Binds the position to a cluster by a stable identity. A position of another cluster is refused.
    pub fn bind_to(&mut self, cluster: &str) -> Result<(), PositionError> {
        match (&self.state.cluster, &self.log) {
            (Some(theirs), _) if **theirs == *cluster => Ok(()),
            (Some(theirs), Some(log)) => Err(PositionError::OtherCluster {
                path: log.path().to_owned(),
                theirs: theirs.clone(),
                ours: cluster.into(),
            }),
            _ => {
                self.step("", Record::Cluster(cluster));
                Ok(())
            }
        }
    }

    /// The position of a stream.
    pub fn get(&self, stream: &str) -> Option<&StreamPosition> {
        self.state.streams.get(stream)
    }

    /// Records an object that was added or modified.
    pub fn put(&mut self, stream: &str, object: &Object) {
        let key = object.key();
        let record = Record::Put {
            key: key.as_str(),
            uid: object.uid().into(),
            version: object.resource_version().into(),
        };
        self.step(stream, record);
    }

    /// Records an object that was deleted.
    pub fn remove(&mut self, stream: &str, key: &ObjectKey) {
        self.step(stream, Record::Gone { key: key.as_str() });
    }

    /// Records that everything up to a version was handled.
    pub fn reach(&mut self, stream: &str, version: &ResourceVersion) {
        let known = self.get(stream).map(|known| &known.version);
        if !version.is_unset() && known != Some(version) {
            self.step(stream, Record::Reached(version.as_str().into()));
        }
    }

    /// Records that a list at this version was handled to its end.
    pub fn synced(&mut self, stream: &str, version: &ResourceVersion) {
        self.step(stream, Record::Synced(version.as_str().into()));
    }

    /// Records that a list has started because the version expired.
    pub fn restart(&mut self, stream: &str) {
        self.step(stream, Record::Restarted);
    }

    /// A stream is not followed any more. Should it be added again, it begins from nothing.
    pub fn forget(&mut self, stream: &str) {
        self.step(stream, Record::Forgotten);
    }

    /// Writes new steps to the file, if there is one. When it returns, they survive a crash of the machine.
    pub fn save(&mut self) -> Result<(), PositionError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.save(|write| self.state.records(write))
    }

    fn step(&mut self, stream: &str, record: Record<'_>) {
        if let Some(log) = &mut self.log {
            log.append(stream, &record);
        }
        self.state.apply(stream, record);
    }
}

impl State {
    /// Applies a record. The only place that does, for new steps and for those read from a file.
    fn apply(&mut self, stream: &str, record: Record<'_>) {
        if let Record::Cluster(id) = record {
            self.cluster = Some(id.into());
            return;
        }
        if record == Record::Forgotten {
            self.streams.remove(stream);
            return;
        }
        let known = match self.streams.get_mut(stream) {
            Some(known) => known,
            None => self.streams.entry(stream.into()).or_default(),
        };
        match record {
            Record::Cluster(_) | Record::Forgotten => {}
            Record::Put { key, uid, version } => known.inventory.put(key, uid.into(), version.into()),
            Record::Gone { key } => known.inventory.remove(key),
            Record::Reached(version) => known.version = version.into(),
            Record::Synced(version) => {
                known.version = version.into();
                known.is_complete = true;
            }
            Record::Restarted => known.version = ResourceVersion::unset(),
        }
    }

    /// The fewest records that lead to this state.
    fn records(&self, write: &mut dyn FnMut(&str, &Record<'_>)) {
        if let Some(cluster) = &self.cluster {
            write("", &Record::Cluster(cluster));
        }
        for (name, stream) in &self.streams {
            for (key, held) in stream.inventory.iter() {
                let record = Record::Put {
                    key: key.as_str(),
                    uid: (&*held.uid).into(),
                    version: held.version.as_str().into(),
                };
                write(name, &record);
            }
            let version = stream.version.as_str().into();
            match stream.is_complete {
                true => write(name, &Record::Synced(version)),
                false => write(name, &Record::Reached(version)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
