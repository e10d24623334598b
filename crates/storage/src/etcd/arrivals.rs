//! Waiting until the copy in memory has reached a revision.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Revision;
use crate::state::State;

/// Whoever waits, by what they wait for. Those who stop waiting are cleared away when it comes.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<BTreeMap<Revision, Vec<oneshot::Sender<()>>>>);

impl Arrivals {
    /// Waits until everything up to a revision is visible.
    pub(crate) async fn wait_for(&self, state: &State, revision: Revision) {
        let arrived = {
            let mut waiting = self.0.lock();
            // Under the lock: what becomes visible after this look is told to whoever is in the list.
            if state.mvcc.read().current() >= revision {
                return;
            }
            let (arrived, receiver) = oneshot::channel();
            waiting.entry(revision).or_default().push(arrived);
            receiver
        };
        // Ends without a word only with the store.
        let _ = arrived.await;
    }

    /// Tells those who wait for what is visible now.
    pub(crate) fn tell(&self, state: &State) {
        let mut waiting = self.0.lock();
        let current = state.mvcc.read().current();
        while let Some(entry) = waiting.first_entry()
            && *entry.key() <= current
        {
            for arrived in entry.remove() {
                // Nobody may be waiting any longer.
                let _ = arrived.send(());
            }
        }
    }
}
