//! Delayed items, each once; of two times the earlier one counts.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Instant;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// A sorted set of due times with their items.
pub(super) struct Waiting<T> {
    due: BTreeSet<(Instant, u64)>,
    items: HashMap<u64, T, RandomState>,
    by_item: HashMap<T, (Instant, u64), RandomState>,
    /// Orders items of equal due time by insertion.
    turn: u64,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            due: BTreeSet::new(),
            items: HashMap::default(),
            by_item: HashMap::default(),
            turn: 0,
        }
    }
}

impl<T: Hash + Eq + Clone> Waiting<T> {
    /// Delays an item until `at`, unless it is due earlier.
    pub(super) fn insert(&mut self, item: T, at: Instant) {
        if let Some(&(earlier, turn)) = self.by_item.get(&item) {
            if earlier <= at {
                return;
            }
            self.due.remove(&(earlier, turn));
            self.items.remove(&turn);
        }
        self.turn += 1;
        self.due.insert((at, self.turn));
        self.items.insert(self.turn, item.clone());
        self.by_item.insert(item, (at, self.turn));
    }

    /// The due time of the first item.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    /// The first item, if it is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<T> {
        let &(at, turn) = self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        let item = self.items.remove(&turn)?;
        self.by_item.remove(&item);
        Some(item)
    }
}
