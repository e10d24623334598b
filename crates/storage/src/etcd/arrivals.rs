//! Waits until the copy in memory has reached a revision.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Revision;
use crate::state::State;

/// Waiters by revision. Those that give up are removed when their revision arrives.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<BTreeMap<Revision, Vec<oneshot::Sender<()>>>>);

impl Arrivals {
    /// Waits until everything up to a revision is visible.
    pub(crate) async fn wait_for(&self, state: &State, revision: Revision) {
        let arrived = {
            let mut waiting = self.0.lock();
            // Under the lock: a revision that becomes visible after this check notifies everyone in the list.
            if state.mvcc.read().current() >= revision {
                return;
            }
            let (arrived, receiver) = oneshot::channel();
            waiting.entry(revision).or_default().push(arrived);
            receiver
        };
        // Fails only when the store is closed.
        let _ = arrived.await;
    }

    /// Wakes those whose revision is visible.
    pub(crate) fn wake(&self, state: &State) {
        let mut waiting = self.0.lock();
        let current = state.mvcc.read().current();
        while let Some(entry) = waiting.first_entry()
            && *entry.key() <= current
        {
            for arrived in entry.remove() {
                // The waiter may have given up.
                let _ = arrived.send(());
            }
        }
    }
}
