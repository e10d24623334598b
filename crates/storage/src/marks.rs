//! The marks of one prefix: one store writes them, many feeds listen.
//!
//! This is tokio's `watch` channel, but for the order in which listeners are woken. Tokio draws it by chance from a
//! generator that nobody can seed. Here it follows from the order in which they began to listen, so that on a runtime of
//! one thread the same history is told in the same order again: simulations depend on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::Revision;

/// Listeners are spread over as many lists, as in tokio: thousands that wait again at once do not queue for one lock.
const LISTS: usize = 8;

/// Added to the version for each change; the lowest bit tells that there will be no more.
const STEP: u64 = 2;
const CLOSED: u64 = 1;

/// What a feed is told about its prefix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// The newest change under the prefix since somebody listens.
    pub(crate) changed: Revision,
    /// The newest change under the prefix that was compacted away: a feed before it has missed something, a feed
    /// that only slept has not.
    pub(crate) dropped: Revision,
}

/// Writes the marks. Dropping it tells all listeners that there will be no more.
#[derive(Debug, Default)]
pub(crate) struct Teller(Arc<Shared>);

/// Reads the marks, and waits for news.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<Shared>,
    list: usize,
    seen: u64,
}

/// There will be no more news.
#[derive(Debug)]
pub(crate) struct NoMoreNews;

#[derive(Debug, Default)]
struct Shared {
    marks: RwLock<Marks>,
    version: AtomicU64,
    lists: [Notify; LISTS],
    listeners: AtomicUsize,
    /// How many have ever listened.
    joined: AtomicUsize,
}

impl Teller {
    pub(crate) fn listen(&self) -> Listener {
        Listener::new(&self.0)
    }

    /// Changes the marks and wakes everybody.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Marks)) {
        change(&mut self.0.marks.write());
        self.0.version.fetch_add(STEP, Ordering::AcqRel);
        self.0.wake_all();
    }

    /// Changes the marks; nobody is woken.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Marks)) {
        change(&mut self.0.marks.write());
    }

    pub(crate) fn listeners(&self) -> usize {
        self.0.listeners.load(Ordering::Acquire)
    }
}

impl Drop for Teller {
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

    /// Only what happens from now on is news.
    pub(crate) fn mark_unchanged(&mut self) {
        self.seen = self.shared.version.load(Ordering::Acquire) & !CLOSED;
    }

    /// True if there is news since the last time.
    pub(crate) fn has_changed(&self) -> bool {
        self.shared.version.load(Ordering::Acquire) & !CLOSED != self.seen
    }

    /// Waits for news since the last time, or the last [`Listener::mark_unchanged`]. Dropping the future loses nothing.
    pub(crate) async fn changed(&mut self) -> Result<(), NoMoreNews> {
        loop {
            // Begun before looking: what is told in between completes it.
            let told = self.shared.lists[self.list].notified();
            let version = self.shared.version.load(Ordering::Acquire);
            if version & !CLOSED != self.seen {
                self.seen = version & !CLOSED;
                return Ok(());
            }
            if version & CLOSED != 0 {
                return Err(NoMoreNews);
            }
            told.await;
        }
    }
}

impl Clone for Listener {
    /// Another listener that has seen as much.
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

    fn news(revision: u64) -> impl FnOnce(&mut Marks) {
        move |marks| marks.changed = Revision::new(revision)
    }

    #[tokio::test]
    async fn news_are_heard_once_and_the_end_after_them() {
        let teller = Teller::default();
        let mut listener = teller.listen();
        teller.tell(news(3));
        let mut second = listener.clone();
        drop(teller);
        for listener in [&mut listener, &mut second] {
            listener.changed().await.unwrap();
            assert_eq!(listener.marks().changed, Revision::new(3));
            listener.changed().await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn what_was_seen_or_only_noted_is_no_news() {
        let teller = Teller::default();
        let mut listener = teller.listen();
        teller.tell(news(3));
        listener.mark_unchanged();
        teller.note(|marks| marks.dropped = Revision::new(2));
        assert!(!listener.has_changed());
        assert_eq!(listener.marks().dropped, Revision::new(2));
        assert_eq!(teller.listeners(), 1);
        drop(listener);
        assert_eq!(teller.listeners(), 0);
    }

    /// Whoever waits is woken in the same order every time.
    #[tokio::test]
    async fn listeners_are_woken_in_an_order_that_repeats() {
        let order = async || {
            let teller = Teller::default();
            let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..100 {
                let (mut listener, told) = (teller.listen(), told.clone());
                tokio::spawn(async move {
                    listener.changed().await.unwrap();
                    told.send(number).unwrap();
                });
            }
            drop(told);
            tokio::task::yield_now().await;
            teller.tell(news(1));
            let mut order = Vec::new();
            while let Some(number) = heard.recv().await {
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
