//! Compares the MVCC core with a naive oracle that never forgets: random batches of writes (some aborted), compactions,
//! restarts with leftovers, reads of the past, and feeds that lag.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Mvcc, key_value};
use crate::clock::Clock;
use crate::model::Record;
use crate::recovery::Recovery;
use crate::state::State;
use crate::transaction::{Command, Transaction};
use crate::{Change, Feed, Key, KeyValue, ReadError, Retention, Revision, WriteError};

const KEYS: [&str; 6] = ["/a", "/a/1", "/a/2", "/b/1", "/b/2", "/c"];
const PREFIXES: [&str; 5] = ["", "/a", "/a/", "/b/", "/none"];

#[derive(Clone, Debug)]
enum Step {
    /// Several writers share a commit, which the engine may reject.
    Commit { writes: Vec<Write>, refused: bool },
    /// Compact at a part of the history, in percent.
    Compact(u64),
    /// Remove some of the garbage from the log.
    Sweep(usize),
    /// Lose the memory and recover from the log.
    Restart,
    /// Start a feed at a part of all revisions, in percent.
    Watch { prefix: usize, percent: u64 },
    /// Let a feed catch up.
    Read(usize),
}

#[derive(Clone, Debug)]
struct Write {
    key: usize,
    delete: bool,
    /// True if the writer has an outdated revision.
    stale: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..KEYS.len(), any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(key, delete, stale)| Write { key, delete, stale });
    let writes = prop::collection::vec(write, 1..6);
    prop_oneof![
        8 => (writes, prop::bool::weighted(0.1))
            .prop_map(|(writes, refused)| Step::Commit { writes, refused }),
        2 => (0..=100u64).prop_map(Step::Compact),
        1 => (0..6usize).prop_map(Step::Sweep),
        1 => Just(Step::Restart),
        3 => (0..PREFIXES.len(), 0..=100u64).prop_map(|(prefix, percent)| Step::Watch { prefix, percent }),
        4 => any::<usize>().prop_map(Step::Read),
    ]
}

/// The store under test, the log of its engine, and the oracle.
struct Model {
    state: Arc<State>,
    log: BTreeMap<Revision, Record>,
    garbage: BTreeSet<Revision>,
    feeds: Vec<(Feed, &'static str)>,
    oracle: Vec<Change>,
    compacted: Revision,
}

fn state(mvcc: Mvcc) -> Arc<State> {
    Arc::new(State::new(mvcc, Clock::start(), Retention::default()))
}

/// A part of the revisions up to `current`.
fn part(current: Revision, percent: u64) -> Revision {
    Revision::new(current.get() * percent / 100)
}

impl Model {
    fn new() -> Self {
        Self {
            state: state(Mvcc::new().sharing(Some(first_half))),
            log: BTreeMap::new(),
            garbage: BTreeSet::new(),
            feeds: Vec::new(),
            oracle: Vec::new(),
            compacted: Revision::ZERO,
        }
    }

    fn current(&self) -> Revision {
        Revision::FIRST.plus(self.oracle.len() as u64)
    }

    /// The value of a key at a revision, by the oracle.
    fn held(&self, key: &str, at: Revision) -> Option<KeyValue> {
        let mut changes = self.oracle.iter();
        let last = changes.rfind(|change| change.revision <= at && &*change.key == key)?;
        Some(KeyValue {
            key: last.key.clone(),
            value: last.value.clone()?,
            create_revision: last.create_revision,
            mod_revision: last.revision,
        })
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Commit { writes, refused } => self.commit(writes, refused),
            Step::Compact(percent) => self.compact(part(self.current(), percent)),
            Step::Sweep(count) => {
                for _ in 0..count {
                    let swept = self.garbage.pop_first();
                    swept.map(|revision| self.log.remove(&revision));
                }
            }
            Step::Restart => self.restart(),
            Step::Watch { prefix, percent } => self.watch(PREFIXES[prefix], part(self.current(), percent)),
            Step::Read(index) => self.read(index),
        }
        self.check_reads();
    }

    fn commit(&mut self, writes: Vec<Write>, refused: bool) {
        let before = self.oracle.len();
        let state = self.state.clone();
        let mvcc = state.mvcc.read();
        let mut transaction = Transaction::begin(&mvcc, 0, u64::MAX);
        let staged: Vec<_> = writes
            .into_iter()
            .map(|write| {
                let (command, expected) = self.expect(write);
                (transaction.stage(&mvcc, command), expected)
            })
            .collect();
        drop(mvcc);
        for (result, expected) in staged {
            match (result, expected) {
                (Ok(revision), Ok(expected)) => assert_eq!(revision, expected),
                (Err(WriteError::Conflict { current }), Err(expected)) => assert_eq!(current, expected),
                (result, expected) => panic!("{result:?}, expected {expected:?}"),
            }
        }
        if refused {
            return self.oracle.truncate(before);
        }
        for record in &transaction.records {
            self.log.insert(record.revision, record.clone());
        }
        self.state.publish(transaction.records);
    }

    /// Applies a write to the oracle. Returns the command for it, and its revision or the conflicting value.
    fn expect(&mut self, write: Write) -> (Command, Result<Revision, Option<KeyValue>>) {
        let key = KEYS[write.key];
        let held = self.held(key, self.current());
        let since = held.as_ref().map(|held| held.mod_revision);
        let revision = self.current().next();
        let value = Bytes::from(revision.to_string());
        let stale = since.map_or(Some(Revision::FIRST), |_| None);
        let expected = if write.stale { stale } else { since };
        if write.delete {
            let expected = expected.unwrap_or(Revision::FIRST);
            let command = Command::Delete {
                key: key.into(),
                expected,
            };
            if since != Some(expected) {
                return (command, Err(held));
            }
            self.push(revision, key, None, held);
            return (command, Ok(revision));
        }
        let command = Command::Put {
            key: key.into(),
            value: value.clone(),
            expected,
            ttl: None,
        };
        if since != expected {
            return (command, Err(held));
        }
        self.push(revision, key, Some(value), held);
        (command, Ok(revision))
    }

    fn push(&mut self, revision: Revision, key: &str, value: Option<Bytes>, held: Option<KeyValue>) {
        self.oracle.push(Change {
            revision,
            key: Key::from(key),
            value: value.map(Into::into),
            create_revision: held.as_ref().map_or(revision, |held| held.create_revision),
            previous: held.map(|held| (held.value, held.mod_revision)),
        });
    }

    fn compact(&mut self, revision: Revision) {
        if revision > self.compacted.max(Revision::FIRST) {
            self.compacted = revision;
        }
        let gone = self.state.compact(revision);
        assert!(gone.is_sorted());
        for revision in gone {
            assert!(self.garbage.insert(revision), "{revision} was dropped twice");
            assert!(revision <= self.compacted);
        }
    }

    fn restart(&mut self) {
        let mut recovery = Recovery::begin(self.compacted, 0, Some(first_half));
        for record in self.log.values() {
            recovery.add(record.clone()).unwrap();
        }
        let recovered = recovery.finish();
        assert!(recovered.garbage.is_sorted());
        assert_eq!(
            recovered.garbage.iter().copied().collect::<BTreeSet<_>>(),
            self.garbage
        );
        self.state = state(recovered.mvcc);
        self.feeds.clear();
    }

    fn watch(&mut self, prefix: &'static str, after: Revision) {
        match Feed::start(self.state.clone(), prefix, after) {
            Ok(feed) => self.feeds.push((feed, prefix)),
            Err(error) => assert_eq!(error, self.compacted_error(after)),
        }
        assert_eq!(
            after < self.compacted,
            Feed::start(self.state.clone(), prefix, after).is_err()
        );
    }

    /// A feed delivers exactly the changes it has not seen, unless one of them was compacted.
    fn read(&mut self, index: usize) {
        if self.feeds.is_empty() {
            return;
        }
        let index = index % self.feeds.len();
        let (mut feed, prefix) = self.feeds.swap_remove(index);
        let position = feed.position();
        let unseen = self.oracle.iter().filter(|change| change.revision > position);
        let unseen: Vec<_> = unseen.filter(|change| change.key.starts_with(prefix)).collect();
        let lost = unseen.iter().any(|change| change.revision <= self.compacted);
        match feed.read() {
            Ok(batch) => {
                assert!(!lost, "changes were skipped in silence");
                let changes: Vec<_> = batch.changes.iter().map(|change| &**change).collect();
                assert_eq!(changes, unseen);
                assert_eq!(batch.revision, self.current().max(position));
                self.feeds.push((feed, prefix));
            }
            Err(error) => {
                assert!(lost, "nothing was lost");
                assert_eq!(error, self.compacted_error(position));
            }
        }
    }

    fn compacted_error(&self, requested: Revision) -> ReadError {
        ReadError::Compacted {
            requested,
            compacted: self.compacted,
            current: self.current(),
        }
    }

    /// Every key and every range of keys at every revision.
    fn check_reads(&self) {
        let mvcc = self.state.mvcc.read();
        assert_eq!(
            (mvcc.current(), mvcc.compacted()),
            (self.current(), self.compacted)
        );
        for number in 0..=self.current().get() {
            let at = Revision::new(number);
            if at < self.compacted {
                assert_eq!(mvcc.get("/a", Some(at)), Err(self.compacted_error(at)));
                continue;
            }
            for key in KEYS {
                assert_eq!(
                    mvcc.get(key, Some(at)).unwrap(),
                    self.held(key, at),
                    "{key} at {at}"
                );
            }
            for (index, start) in KEYS[..KEYS.len() - 1].iter().enumerate() {
                self.check_walk(&mvcc, start, &KEYS[index..], at);
            }
        }
    }

    /// A walk in small steps finds what the oracle has.
    fn check_walk(&self, mvcc: &Mvcc, start: &str, keys: &[&str], at: Revision) {
        let mut found = Vec::new();
        let mut next = None::<Key>;
        loop {
            let start = next.as_deref().map_or(Bound::Included(start), Bound::Excluded);
            let end = Bound::Excluded("/c");
            next = mvcc.walk((start, end), at, 2, |key, version| {
                found.extend(key_value(key, version));
            });
            if next.is_none() {
                break;
            }
        }
        let keys = keys.iter().filter(|key| **key < "/c");
        let expected: Vec<_> = keys.filter_map(|key| self.held(key, at)).collect();
        assert_eq!(found, expected, "from {start:?} at {at}");
    }
}

proptest! {
    #[test]
    fn the_core_agrees_with_the_oracle(steps in prop::collection::vec(step(), 1..60)) {
        let mut model = Model::new();
        for step in steps {
            model.run(step);
        }
        model.run(Step::Restart);
        model.run(Step::Compact(100));
        // Without history, only the current state costs memory or disk.
        let keys = model.state.mvcc.read().keys.len();
        let live = KEYS.iter().filter(|key| model.held(key, model.current()).is_some()).count();
        prop_assert_eq!(keys, live);
        prop_assert_eq!(model.log.len() - model.garbage.len(), live);
    }
}

/// The oracle does not split values.
fn first_half(value: &[u8]) -> Option<std::ops::Range<usize>> {
    Some(0..value.len() / 2)
}
