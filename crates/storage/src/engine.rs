//! Storage engines: make a batch of writes durable, atomically. Reads never reach them.

pub(crate) mod redb;

use std::path::PathBuf;

use crate::model::Record;
use crate::{EngineError, Revision};

/// One group of writes.
#[derive(Debug)]
pub(crate) struct Commit<'a> {
    /// New records, in the order of their revisions.
    pub(crate) records: &'a [Record],
    /// The history up to this revision is compacted.
    pub(crate) compacted: Option<Revision>,
    /// Records that earlier compactions made obsolete, oldest first.
    pub(crate) garbage: &'a [Revision],
}

impl Commit<'_> {
    /// True if there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.compacted.is_none() && self.garbage.is_empty()
    }
}

/// The interface to the disk.
pub(crate) trait Engine: Send {
    /// Makes a commit durable before it returns. After an error, no later commit may find any part of it.
    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), EngineError>;

    /// True if `commit` blocks on a disk, and so must not run on an async worker thread.
    fn waits_for_disk(&self) -> bool;

    /// True if the engine has failed for good.
    fn has_failed(&self) -> bool;

    /// The path of the data file; `None` if there is none.
    fn data_file(&self) -> Option<PathBuf>;

    /// The bytes of all records; zero for an engine that stores none.
    fn used_bytes(&self) -> u64;

    /// Returns free pages to the file system.
    fn defragment(&mut self) -> Result<(), EngineError>;
}

/// Stores nothing: all data is in the memory of the store itself.
#[derive(Debug)]
pub(crate) struct Memory;

impl Engine for Memory {
    fn commit(&mut self, _: &Commit<'_>) -> Result<(), EngineError> {
        Ok(())
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn has_failed(&self) -> bool {
        false
    }

    fn data_file(&self) -> Option<PathBuf> {
        None
    }

    fn used_bytes(&self) -> u64 {
        0
    }

    fn defragment(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}
