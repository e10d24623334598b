//! Rebuilds the state in memory from the records on a disk.
//!
//! Up to the compacted revision, a log has the current version of each key and possibly leftovers: compaction is
//! recorded first, and obsolete records are removed later, a few with each commit. After the compacted revision a log
//! has every record without a gap. So recovery replays the first part as plain state, collecting the leftovers, and the
//! second part as history that feeds can resume from.

use crate::Revision;
use crate::model::{Record, UnixMillis};
use crate::mvcc::{Mvcc, SharedPart};

/// A log that no store can have written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecoveryError {
    #[error("revision {found} follows {last}")]
    Order { last: Revision, found: Revision },
    #[error("revision {expected} is missing")]
    Gap { expected: Revision },
}

/// The result of a recovery.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) mvcc: Mvcc,
    /// Records still to be removed, oldest first.
    pub(crate) garbage: Vec<Revision>,
}

/// A replay in progress.
#[derive(Debug)]
pub(crate) struct Recovery {
    recovered: Recovered,
    last: Revision,
    now: UnixMillis,
}

impl Recovery {
    /// Starts the replay of a log that was compacted at a revision.
    pub(crate) fn begin(compacted: Revision, now: UnixMillis, shared_part: Option<SharedPart>) -> Self {
        Self {
            recovered: Recovered {
                mvcc: Mvcc::recovering(compacted).sharing(shared_part),
                garbage: Vec::new(),
            },
            // Revision 1 is the empty store: no record has it.
            last: Revision::FIRST,
            now,
        }
    }

    /// Adds the next record, in the order of revisions.
    pub(crate) fn add(&mut self, mut record: Record) -> Result<(), RecoveryError> {
        let (last, found) = (self.last, record.revision);
        if found <= last {
            return Err(RecoveryError::Order { last, found });
        }
        self.last = found;
        // The wall clock may have been set back; no record was written in the future.
        record.written_at = record.written_at.min(self.now);
        let Recovered { mvcc, garbage } = &mut self.recovered;
        if found <= mvcc.compacted() {
            mvcc.restore(record, |revision| garbage.push(revision));
            return Ok(());
        }
        let expected = mvcc.current().next();
        if found != expected {
            return Err(RecoveryError::Gap { expected });
        }
        mvcc.apply(record);
        Ok(())
    }

    /// The state after the last record.
    pub(crate) fn finish(mut self) -> Recovered {
        self.recovered.garbage.sort_unstable();
        self.recovered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::transform::Seal;

    fn record(revision: u64, key: &str, value: Option<&'static str>) -> Record {
        Record {
            revision: Revision::new(revision),
            key: Key::from(key),
            value: value.map(Into::into),
            create_revision: Revision::new(revision),
            written_at: 0,
            expires_at: None,
            seal: Seal::Current,
        }
    }

    fn replay(compacted: u64, records: Vec<Record>) -> Result<Recovered, RecoveryError> {
        let mut recovery = Recovery::begin(Revision::new(compacted), 0, None);
        for record in records {
            recovery.add(record)?;
        }
        Ok(recovery.finish())
    }

    #[test]
    fn leftovers_of_compaction_are_found_again() {
        let recovered = replay(
            6,
            vec![
                record(2, "a", Some("old")),
                record(3, "b", Some("deleted")),
                record(4, "a", Some("new")),
                record(5, "b", None),
                // Its older version was removed already.
                record(6, "c", None),
                record(7, "a", Some("newest")),
            ],
        )
        .unwrap();
        assert_eq!(recovered.garbage, [2, 3, 5, 6].map(Revision::new));
        assert_eq!(recovered.mvcc.current(), Revision::new(7));
        assert_eq!(recovered.mvcc.latest("a").unwrap().value.bytes(), "newest");
        assert_eq!(recovered.mvcc.latest("b"), None);
        let at = Some(Revision::new(6));
        assert_eq!(recovered.mvcc.get("a", at).unwrap().unwrap().value.bytes(), "new");
    }

    #[test]
    fn a_log_with_everything_compacted_keeps_its_revision() {
        let recovered = replay(9, vec![record(2, "a", Some("x"))]).unwrap();
        assert_eq!(recovered.mvcc.current(), Revision::new(9));
    }

    #[test]
    fn impossible_logs_are_refused() {
        let check = |compacted, revisions: &[u64], error: &str| {
            let records = revisions.iter().map(|&revision| record(revision, "a", Some("x")));
            assert_eq!(
                replay(compacted, records.collect()).unwrap_err().to_string(),
                error
            );
        };
        check(0, &[3], "revision 2 is missing");
        check(4, &[2, 6], "revision 5 is missing");
        check(0, &[2, 2], "revision 2 follows 2");
        check(0, &[1], "revision 1 follows 1");
    }
}
