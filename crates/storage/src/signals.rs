//! Who is woken by a change: one signal per watched prefix, shared by all feeds of that prefix.
//!
//! A write must not wake thousands of feeds that it does not concern. So a change is looked up under each of its
//! key's prefixes that someone watches. Only prefix *lengths* that occur are tried, and there are few of them,
//! because watched prefixes look alike.

use std::collections::{BTreeSet, HashMap};

use crate::Change;
#[cfg(feature = "etcd")]
use crate::Revision;
use crate::marks::{Listener, Teller};

/// Signals without a feed are cleared away when their number reaches this, or twice what was left last time.
const FIRST_SWEEP: usize = 64;

/// All signals of a store.
#[derive(Debug)]
pub(crate) struct Signals {
    by_prefix: HashMap<Box<str>, Teller>,
    /// The lengths that prefixes have.
    lengths: BTreeSet<usize>,
    sweep_at: usize,
    closed: bool,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self {
            by_prefix: HashMap::new(),
            lengths: BTreeSet::new(),
            sweep_at: FIRST_SWEEP,
            closed: false,
        }
    }

    /// Listens to a prefix; `None` once the store is closed.
    pub(crate) fn subscribe(&mut self, prefix: &str) -> Option<Listener> {
        if self.closed {
            return None;
        }
        if let Some(signal) = self.by_prefix.get(prefix) {
            return Some(signal.listen());
        }
        self.sweep();
        let signal = Teller::default();
        let listener = signal.listen();
        self.by_prefix.insert(prefix.into(), signal);
        self.lengths.insert(prefix.len());
        Some(listener)
    }

    /// Wakes the feeds that a change concerns.
    pub(crate) fn changed(&self, change: &Change) {
        self.each(&change.key, |signal| {
            signal.tell(|marks| marks.changed = change.revision)
        });
    }

    /// Wakes whoever wants to know how far the store is.
    #[cfg(feature = "etcd")]
    pub(crate) fn moved(&self, revision: Revision) {
        if let Some(signal) = self.by_prefix.get("") {
            signal.tell(|marks| marks.changed = revision);
        }
    }

    /// Tells everybody that the history up to a revision is gone.
    #[cfg(feature = "etcd")]
    pub(crate) fn lost(&self, revision: Revision) {
        for signal in self.by_prefix.values() {
            signal.tell(|marks| marks.dropped = marks.dropped.max(revision));
        }
    }

    /// Notes that a change is gone. Nobody is woken: whoever needs it finds out on the next read.
    pub(crate) fn dropped(&self, change: &Change) {
        self.each(&change.key, |signal| {
            signal.note(|marks| marks.dropped = change.revision);
        });
    }

    /// Ends all feeds once they have read what is there.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.by_prefix.clear();
        self.lengths.clear();
    }

    fn each(&self, key: &str, mut tell: impl FnMut(&Teller)) {
        for &length in self.lengths.range(..=key.len()) {
            if let Some(signal) = key.get(..length).and_then(|prefix| self.by_prefix.get(prefix)) {
                tell(signal);
            }
        }
    }

    fn sweep(&mut self) {
        if self.by_prefix.len() < self.sweep_at {
            return;
        }
        self.by_prefix.retain(|_, signal| signal.listeners() > 0);
        self.lengths = self.by_prefix.keys().map(|prefix| prefix.len()).collect();
        self.sweep_at = FIRST_SWEEP.max(2 * self.by_prefix.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Revision};

    fn change(key: &str) -> Change {
        Change {
            revision: Revision::new(7),
            key: Key::from(key),
            value: None,
            previous: None,
            create_revision: Revision::new(2),
        }
    }

    #[test]
    fn only_feeds_of_the_prefix_are_woken() {
        let mut signals = Signals::new();
        let check = |signals: &mut Signals, prefix: &str, key: &str, woken: bool| {
            let receiver = signals.subscribe(prefix).unwrap();
            signals.changed(&change(key));
            assert_eq!(receiver.has_changed(), woken, "{prefix:?} {key:?}");
        };
        check(&mut signals, "", "/pods/a", true);
        check(&mut signals, "/pods/", "/pods/a", true);
        check(&mut signals, "/pods/", "/pod", false);
        check(&mut signals, "/nodes/", "/pods/a", false);
        // A prefix may end within a character of another key.
        check(&mut signals, "/ab", "/\u{e9}", false);
    }

    #[test]
    fn signals_without_a_feed_do_not_pile_up() {
        let mut signals = Signals::new();
        let kept = signals.subscribe("kept").unwrap();
        for number in 0..10 * FIRST_SWEEP {
            signals.subscribe(&number.to_string());
        }
        assert!(signals.by_prefix.len() <= FIRST_SWEEP);
        signals.changed(&change("kept/a"));
        assert!(kept.has_changed());
    }
}
