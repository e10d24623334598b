//! A position: how far several streams were handled, and which objects they held then.
//!
//! In flow the steps of a follower, after each was handled; out flows, at the next start, where each stream was: its
//! version, and an inventory of key, uid and version of every object. The version resumes a watch. If it has expired,
//! the inventory is compared with a fresh list, which tells what was added, modified and deleted meanwhile.
//!
//! With [`Position::open`] every step is appended to a log on disk. A crash loses at most the steps since the
//! last [`Position::save`]: their events are seen again, and none is missed.

mod inventory;
mod log;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_wire::Object;

use self::log::{Log, Record};

pub use self::inventory::{Held, Inventory};

/// Why a position cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum PositionError {
    /// The file cannot be read or written.
    #[error("position file {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{} is not a position file", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// The file was changed by somebody else, or the disk has lost a part of it.
    #[error(
        "position file {} is damaged at byte {at}; remove it to begin with what is there now",
        path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where the damage begins.
        at: usize,
    },
    /// Another process follows with this file.
    #[error("position file {} is in use by another process", path.display())]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// Versions of one cluster mean nothing in another.
    #[error(
        "{} is a position in another cluster ({theirs}, this one is {ours}); \
         name another file, or remove it to begin with what is there now",
        path.display()
    )]
    OtherCluster {
        /// Which file.
        path: PathBuf,
        /// The cluster the file is about.
        theirs: Box<str>,
        /// The cluster it was to be used with.
        ours: Box<str>,
    },
}

/// How far streams were handled, in memory or in a file.
#[derive(Debug, Default)]
pub struct Position {
    state: State,
    log: Option<Log>,
}

/// All that a position says.
#[derive(Debug, Default)]
struct State {
    cluster: Option<Box<str>>,
    streams: BTreeMap<Box<str>, StreamPosition>,
}

/// How far one stream was handled, and what it held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPosition {
    /// Everything up to this version was handled. Unset while a list is being handled: only a list leads on from there.
    pub version: ResourceVersion,
    /// The objects that were told and not yet told as deleted.
    pub inventory: Inventory,
    /// True if the inventory is complete: a list was handled to its end. A file of the first format has no inventory.
    pub is_complete: bool,
}

impl Position {
    /// A position that ends with the process.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Reads the file, or begins one: a file that does not exist is a start from nothing. The file stays locked until
    /// the position is dropped.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, PositionError> {
        let mut state = State::default();
        let log = Log::open(path.into(), |stream, record| state.apply(stream, record))?;
        Ok(Self {
            state,
            log: Some(log),
        })
    }

    /// Binds the position to a cluster by some lasting identity of it. A position of another cluster is refused.
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

    /// How far a stream was handled.
    pub fn get(&self, stream: &str) -> Option<&StreamPosition> {
        self.state.streams.get(stream)
    }

    /// An object was told, as added or modified.
    pub fn put(&mut self, stream: &str, object: &Object) {
        let key = object.key();
        let record = Record::Put {
            key: key.as_str(),
            uid: object.uid().into(),
            version: object.resource_version().into(),
        };
        self.step(stream, record);
    }

    /// An object was told as deleted.
    pub fn remove(&mut self, stream: &str, key: &ObjectKey) {
        self.step(stream, Record::Gone { key: key.as_str() });
    }

    /// Everything up to a version was handled.
    pub fn reach(&mut self, stream: &str, version: &ResourceVersion) {
        let known = self.get(stream).map(|known| &known.version);
        if !version.is_unset() && known != Some(version) {
            self.step(stream, Record::Reached(version.as_str().into()));
        }
    }

    /// A list that shows the state at this version was handled to its end.
    pub fn synced(&mut self, stream: &str, version: &ResourceVersion) {
        self.step(stream, Record::Synced(version.as_str().into()));
    }

    /// A list has begun to be handled because the version was lost.
    pub fn restart(&mut self, stream: &str) {
        self.step(stream, Record::Restarted);
    }

    /// Writes down what is new, if there is a file. Once this has returned it survives a crash of the machine.
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
    /// The one place that says what a record means, for steps of now and those read from a file.
    fn apply(&mut self, stream: &str, record: Record<'_>) {
        if let Record::Cluster(id) = record {
            self.cluster = Some(id.into());
            return;
        }
        let known = match self.streams.get_mut(stream) {
            Some(known) => known,
            None => self.streams.entry(stream.into()).or_default(),
        };
        match record {
            Record::Cluster(_) => {}
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
