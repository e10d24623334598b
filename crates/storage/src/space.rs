//! The room that a durable store takes, and what happens when there is no more.
//!
//! A store with a quota refuses writes that would grow it beyond, as etcd does; reads, deletes, and updates that are not
//! larger than what they replace go on. When little room is left the store keeps no history, so that what is replaced or
//! deleted is free at once, and the alarm ends by itself. A full disk is treated alike, as far as the disk still takes deletes.
//!
//! The quota counts records, not the file: redb reuses free pages but gives them back to the file system only when the
//! store is defragmented.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An alarm ends when this fraction (1/32) of the quota is free again, so that it does not come and go with each write.
const SLACK: u64 = 32;

/// History is given up when less than this fraction (1/8) of the quota is free.
const TIGHT: u64 = 8;

/// The room that a store takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all records, history included.
    pub used_bytes: u64,
    /// Bytes of the data file, free pages included.
    pub file_bytes: u64,
    /// The most bytes of records that are accepted.
    pub quota_bytes: Option<u64>,
    /// The store is full: writes that grow are refused.
    pub is_full: bool,
}

/// What is known of the room.
#[derive(Debug, Default)]
pub(crate) struct Space {
    quota: Option<u64>,
    file: Option<PathBuf>,
    used: AtomicU64,
    is_full: AtomicBool,
}

/// How a commit went, as far as room is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything that was asked for found room.
    Fits,
    /// A write was refused for want of room.
    Refused,
}

impl Space {
    pub(crate) fn new(quota: Option<u64>, file: Option<PathBuf>, used: u64) -> Self {
        Self {
            quota,
            file,
            used: AtomicU64::new(used),
            is_full: AtomicBool::new(quota.is_some_and(|quota| used > quota)),
        }
    }

    /// Bytes that further records may take.
    pub(crate) fn room(&self) -> u64 {
        let used = self.used.load(Ordering::Acquire);
        self.quota.map_or(u64::MAX, |quota| quota.saturating_sub(used))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Whether history is to be given up for the sake of writes.
    pub(crate) fn is_tight(&self) -> bool {
        self.is_full() || self.quota.is_some_and(|quota| self.room() < quota / TIGHT)
    }

    /// Takes note of a commit, after which so many bytes are used.
    pub(crate) fn note(&self, used: u64, outcome: Outcome) {
        self.used.store(used, Ordering::Release);
        let beyond = |limit: u64| used > limit;
        let is_over = self.quota.is_some_and(beyond);
        let is_near = self.quota.is_some_and(|quota| beyond(quota - quota / SLACK));
        let is_full = outcome == Outcome::Refused || is_over || (self.is_full() && is_near);
        self.is_full.store(is_full, Ordering::Release);
    }

    pub(crate) fn usage(&self) -> Usage {
        let file = self.file.as_ref().and_then(|file| file.metadata().ok());
        Usage {
            used_bytes: self.used.load(Ordering::Acquire),
            file_bytes: file.map_or(0, |file| file.len()),
            quota_bytes: self.quota,
            is_full: self.is_full(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alarm_ends_when_there_is_some_room_again() {
        let space = Space::new(Some(3200), None, 0);
        let note = |used, outcome| {
            space.note(used, outcome);
            space.is_full()
        };
        assert!(!note(3200, Outcome::Fits));
        assert!(note(3150, Outcome::Refused));
        assert!(note(3101, Outcome::Fits));
        assert!(!note(3100, Outcome::Fits));
        assert!(!note(3150, Outcome::Fits));
        assert!(note(3201, Outcome::Fits));
        assert_eq!(space.room(), 0);
    }

    #[test]
    fn without_a_quota_only_a_full_disk_counts() {
        let space = Space::new(None, None, 7);
        assert_eq!(space.room(), u64::MAX);
        space.note(8, Outcome::Refused);
        assert!(space.is_full());
        space.note(8, Outcome::Fits);
        assert!(!space.is_full());
    }
}
