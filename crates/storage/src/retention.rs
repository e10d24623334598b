//! The retention policy of history, without the clock that drives it.

use std::time::Duration;

use crate::Revision;
use crate::clock::millis;
use crate::model::UnixMillis;
use crate::mvcc::Mvcc;

/// The amount of history that a store retains for reads of the past and for feeds that resume. The first limit exceeded
/// decides. A feed that falls behind gets [`ReadError::Compacted`](crate::ReadError::Compacted).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The retention period; `Duration::MAX` for no limit.
    pub age: Duration,
    /// The largest number of changes.
    pub revisions: u64,
    /// The largest size of superseded values. Current values do not count.
    pub superseded_bytes: u64,
}

impl Default for Retention {
    /// Five minutes, as kube-apiserver's compaction interval; at most 100,000 changes and 256 MiB.
    fn default() -> Self {
        Self {
            age: Duration::from_secs(5 * 60),
            revisions: 100_000,
            superseded_bytes: 256 << 20,
        }
    }
}

/// A limit may be exceeded by one eighth before the history is cut back to it, so that compaction is batched.
const SLACK: u64 = 8;

impl Retention {
    /// The revision to compact at because there is too much history.
    pub(crate) fn overflow(&self, mvcc: &Mvcc) -> Option<Revision> {
        let history = mvcc.history();
        let exceeds = |have: u64, limit: u64| have > limit.saturating_add(limit / SLACK);
        let too_much = exceeds(history.len(), self.revisions)
            || exceeds(history.superseded_bytes(), self.superseded_bytes);
        too_much.then(|| history.revision_within(self.revisions, self.superseded_bytes))
    }

    /// The time of the next compaction by age.
    pub(crate) fn due(&self, mvcc: &Mvcc) -> Option<UnixMillis> {
        let age = self.age_millis();
        let oldest = mvcc.history().oldest_written_at()?;
        oldest.checked_add(age)?.checked_add(age / SLACK)
    }

    /// The revision to compact at because older history has expired.
    pub(crate) fn outdated(&self, mvcc: &Mvcc, now: UnixMillis) -> Option<Revision> {
        let revision = mvcc.history().revision_at(now.checked_sub(self.age_millis())?);
        (revision > mvcc.history().floor()).then_some(revision)
    }

    fn age_millis(&self) -> u64 {
        millis(self.age)
    }
}
