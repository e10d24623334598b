//! Wakes feeds on changes: one signal per watched prefix, shared by all feeds of that prefix.
//!
//! A write must not wake thousands of feeds that it does not concern. So a change is looked up under each of its key's
//! prefixes that is watched. Only prefix *lengths* in use are tried, and there are few, because watched prefixes are
//! alike.

use std::collections::{BTreeSet, HashMap};

use crate::Change;
#[cfg(feature = "etcd")]
use crate::Revision;
use crate::marks::{Listener, Notifier};

/// Signals without a feed are removed when their number reaches this, or twice what was left last time.
const FIRST_SWEEP: usize = 64;

/// All signals of a store.
#[derive(Debug)]
pub(crate) struct Signals {
    by_prefix: HashMap<Box<str>, Notifier>,
    /// The lengths of the watched prefixes.
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

    /// Subscribes to a prefix; `None` once the store is closed.
    pub(crate) fn subscribe(&mut self, prefix: &str) -> Option<Listener> {
        if self.closed {
            return None;
        }
        if let Some(signal) = self.by_prefix.get(prefix) {
            return Some(signal.listen());
        }
        self.sweep();
        let signal = Notifier::default();
        let listener = signal.listen();
        self.by_prefix.insert(prefix.into(), signal);
        self.lengths.insert(prefix.len());
        Some(listener)
    }

    /// Wakes the feeds that a change concerns.
    pub(crate) fn changed(&self, change: &Change) {
        self.each(&change.key, |signal| {
            signal.notify(|marks| marks.changed = change.revision)
        });
    }

    /// Wakes the feeds that want progress.
    #[cfg(feature = "etcd")]
    pub(crate) fn moved(&self, revision: Revision) {
        if let Some(signal) = self.by_prefix.get("") {
            signal.notify(|marks| marks.changed = revision);
        }
    }

    /// Tells all feeds that the history up to a revision is lost.
    #[cfg(feature = "etcd")]
    pub(crate) fn lost(&self, revision: Revision) {
        for signal in self.by_prefix.values() {
            signal.notify(|marks| marks.dropped = marks.dropped.max(revision));
        }
    }

    /// Records that a change was compacted. Nobody is woken: a feed finds out on its next read.
    pub(crate) fn dropped(&self, change: &Change) {
        self.each(&change.key, |signal| {
            signal.note(|marks| marks.dropped = change.revision);
        });
    }

    /// Ends all feeds after they have read the remaining changes.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.by_prefix.clear();
        self.lengths.clear();
    }

    fn each(&self, key: &str, mut notify: impl FnMut(&Notifier)) {
        for &length in self.lengths.range(..=key.len()) {
            if let Some(signal) = key.get(..length).and_then(|prefix| self.by_prefix.get(prefix)) {
                notify(signal);
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
