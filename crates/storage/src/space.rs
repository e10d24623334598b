//! Disk usage, quota, and the full-disk alarm.
//!
//! A store with a quota refuses writes that would exceed it, as etcd does; reads, deletes, and updates that do not grow
//! a value continue. When space is short the store retains no history, so that replaced and deleted values free their
//! space at once, and the alarm clears by itself. A full disk is handled the same way, as far as the disk still accepts
//! deletes.
//!
//! The quota counts records, not the file size: redb reuses free pages, but returns them to the file system only when
//! the store is defragmented.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// An alarm clears when this fraction (1/32) of the quota is free again, so that it does not flap.
const SLACK: u64 = 32;

/// History is dropped when less than this fraction (1/8) of the quota is free.
const TIGHT: u64 = 8;

/// The disk usage of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of all records, history included.
    pub used_bytes: u64,
    /// Bytes of the data file, free pages included.
    pub file_bytes: u64,
    /// The limit on the bytes of records.
    pub quota_bytes: Option<u64>,
    /// The store is full: writes that grow it are refused.
    pub is_full: bool,
}

/// The space accounting of a store.
#[derive(Debug, Default)]
pub(crate) struct Space {
    quota: Option<u64>,
    file: Option<PathBuf>,
    used: AtomicU64,
    is_full: AtomicBool,
}

/// The outcome of a commit with respect to space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything fitted.
    Fits,
    /// A write was refused for lack of space.
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

    /// The bytes available for further records.
    pub(crate) fn room(&self) -> u64 {
        let used = self.used.load(Ordering::Acquire);
        self.quota.map_or(u64::MAX, |quota| quota.saturating_sub(used))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// True if history must be dropped to make space for writes.
    pub(crate) fn is_tight(&self) -> bool {
        self.is_full() || self.quota.is_some_and(|quota| self.room() < quota / TIGHT)
    }

    /// Records a commit and the bytes used after it.
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
    fn the_alarm_clears_when_some_space_is_free_again() {
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
