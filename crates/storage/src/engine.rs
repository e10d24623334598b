//! Storage engines: make a batch of writes durable, all of it or nothing. They know nothing of readers.

pub(crate) mod redb;

use std::path::PathBuf;

use crate::model::Record;
use crate::{EngineError, Revision};

/// One group of writes.
#[derive(Debug)]
pub(crate) struct Commit<'a> {
    /// New records, in the order of their revisions.
    pub(crate) records: &'a [Record],
    /// The history up to here may be forgotten.
    pub(crate) compacted: Option<Revision>,
    /// Records that earlier compactions have made superfluous, oldest first.
    pub(crate) garbage: &'a [Revision],
}

impl Commit<'_> {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.compacted.is_none() && self.garbage.is_empty()
    }
}

/// The seam to the disk.
pub(crate) trait Engine: Send {
    /// Makes a commit durable before it returns. After an error nothing of it may be found by a later commit.
    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), EngineError>;

    /// Whether `commit` waits for a disk, and so must not run on a thread that serves others.
    fn waits_for_disk(&self) -> bool;

    /// Whether it will make nothing durable any longer.
    fn has_failed(&self) -> bool;

    /// Where the records are; `None` if they are in no file of ours.
    fn data_file(&self) -> Option<PathBuf>;

    /// Bytes of all records it holds; zero if it holds none.
    fn used_bytes(&self) -> u64;

    /// Gives free pages back to the file system.
    fn defragment(&mut self) -> Result<(), EngineError>;
}

/// Keeps nothing: the store's own memory is all there is.
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
