//! The state of one watched prefix: the store writes it, many feeds listen.
//!
//! This is tokio's `watch` channel, except for the order in which listeners are woken. Tokio's order is random, from a
//! generator that cannot be seeded. Here it follows the order in which they subscribed, so that on a single-threaded
//! runtime a history replays in the same order. Simulations depend on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::Revision;

/// Listeners are spread over this many lists, as in tokio, so that thousands that wait again at once do not contend for
/// one lock.
const LISTS: usize = 8;

/// Added to the version for each change; the lowest bit marks the channel as closed.
const STEP: u64 = 2;
const CLOSED: u64 = 1;

/// The state of a prefix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// The newest change under the prefix since the first subscription.
    pub(crate) changed: Revision,
    /// The newest change under the prefix that was compacted: a feed before it has missed something; an idle feed has
    /// not.
    pub(crate) dropped: Revision,
}

/// Writes the marks. Dropping it closes the channel.
#[derive(Debug, Default)]
pub(crate) struct Notifier(Arc<Shared>);

/// Reads the marks, and waits for changes.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<Shared>,
    list: usize,
    seen: u64,
}

/// The channel is closed.
#[derive(Debug)]
pub(crate) struct Closed;

#[derive(Debug, Default)]
struct Shared {
    marks: RwLock<Marks>,
    version: AtomicU64,
    lists: [Notify; LISTS],
    listeners: AtomicUsize,
    /// The number of listeners ever created.
    joined: AtomicUsize,
}

impl Notifier {
    pub(crate) fn listen(&self) -> Listener {
        Listener::new(&self.0)
    }

    /// Changes the marks and wakes all listeners.
    pub(crate) fn notify(&self, change: impl FnOnce(&mut Marks)) {
        change(&mut self.0.marks.write());
        self.0.version.fetch_add(STEP, Ordering::AcqRel);
        self.0.wake_all();
    }

    /// Changes the marks without waking anyone.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Marks)) {
        change(&mut self.0.marks.write());
    }

    pub(crate) fn listeners(&self) -> usize {
        self.0.listeners.load(Ordering::Acquire)
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.0.version.fetch_or(CLOSED, Ordering::AcqRel);
        self.0.wake_all();
    }
}

impl Shared {
    fn wake_all(&self) {
        self.lists.iter().for_each(Notify::notify_waiters);
    }
}

impl Listener {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.listeners.fetch_add(1, Ordering::AcqRel);
        Self {
            list: shared.joined.fetch_add(1, Ordering::Relaxed) % LISTS,
            seen: shared.version.load(Ordering::Acquire) & !CLOSED,
            shared: shared.clone(),
        }
    }

    pub(crate) fn marks(&self) -> Marks {
        *self.shared.marks.read()
    }

    /// Marks the current state as seen.
    pub(crate) fn mark_unchanged(&mut self) {
        self.seen = self.shared.version.load(Ordering::Acquire) & !CLOSED;
    }

    /// True if there is an unseen change.
    pub(crate) fn has_changed(&self) -> bool {
        self.shared.version.load(Ordering::Acquire) & !CLOSED != self.seen
    }

    /// Waits for an unseen change. Dropping the future loses nothing.
    pub(crate) async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Created before the check: a notification in between completes it.
            let notified = self.shared.lists[self.list].notified();
            let version = self.shared.version.load(Ordering::Acquire);
            if version & !CLOSED != self.seen {
                self.seen = version & !CLOSED;
                return Ok(());
            }
            if version & CLOSED != 0 {
                return Err(Closed);
            }
            notified.await;
        }
    }
}

impl Clone for Listener {
    /// A listener that has seen the same changes.
    fn clone(&self) -> Self {
        let mut other = Self::new(&self.shared);
        other.seen = self.seen;
        other
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change_to(revision: u64) -> impl FnOnce(&mut Marks) {
        move |marks| marks.changed = Revision::new(revision)
    }

    #[tokio::test]
    async fn a_change_is_seen_once_and_then_the_end() {
        let notifier = Notifier::default();
        let mut listener = notifier.listen();
        notifier.notify(change_to(3));
        let mut second = listener.clone();
        drop(notifier);
        for listener in [&mut listener, &mut second] {
            listener.changed().await.unwrap();
            assert_eq!(listener.marks().changed, Revision::new(3));
            listener.changed().await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn seen_changes_and_quiet_notes_do_not_wake() {
        let notifier = Notifier::default();
        let mut listener = notifier.listen();
        notifier.notify(change_to(3));
        listener.mark_unchanged();
        notifier.note(|marks| marks.dropped = Revision::new(2));
        assert!(!listener.has_changed());
        assert_eq!(listener.marks().dropped, Revision::new(2));
        assert_eq!(notifier.listeners(), 1);
        drop(listener);
        assert_eq!(notifier.listeners(), 0);
    }

    /// Listeners are woken in the same order every time.
    #[tokio::test]
    async fn listeners_are_woken_in_a_reproducible_order() {
        let order = async || {
            let notifier = Notifier::default();
            let (notified, mut received) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..100 {
                let (mut listener, notified) = (notifier.listen(), notified.clone());
                tokio::spawn(async move {
                    listener.changed().await.unwrap();
                    notified.send(number).unwrap();
                });
            }
            drop(notified);
            tokio::task::yield_now().await;
            notifier.notify(change_to(1));
            let mut order = Vec::new();
            while let Some(number) = received.recv().await {
                order.push(number);
            }
            order
        };
        let first = order().await;
        assert_eq!(first.len(), 100);
        for _ in 0..5 {
            assert_eq!(order().await, first);
        }
    }
}
