//! Background work of a store: deletes expired keys, and compacts history that is too old.
//!
//! The task sleeps until the next deadline, and checks the wall clock once a minute until then. Without a deadline it
//! uses no CPU. Both kinds of work use the normal write path. An expiry is a deletion at the revision seen, so a key
//! that was renewed meanwhile stays.

use std::sync::Arc;
use std::time::Duration;

use crate::group_commit::{GroupCommit, answered};
use crate::model::UnixMillis;
use crate::state::State;
use crate::transaction::Command;
use crate::{Key, Revision, WriteError};

/// The largest number of keys expired at once.
const MAX_EXPIRED: usize = 256;
/// The pause after a failure of the engine.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until the store is closed.
pub(crate) async fn run(state: Arc<State>, group_commit: Arc<GroupCommit>) {
    let mut due = state.due.subscribe();
    loop {
        let next = *due.borrow_and_update();
        tokio::select! {
            changed = due.changed() => if changed.is_err() { return },
            () = sleep_until(&state, next) => match run_due(&state, &group_commit).await {
                Ok(()) => {}
                Err(WriteError::Closed) => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            },
        }
    }
}

/// Sleeps until a deadline, if there is one.
pub(crate) async fn sleep_until(state: &State, due: Option<UnixMillis>) {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    while state.clock.now() < due {
        tokio::time::sleep_until(state.clock.instant(due)).await;
    }
}

/// Does the work that is due.
async fn run_due(state: &State, group_commit: &Arc<GroupCommit>) -> Result<(), WriteError> {
    let now = state.clock.now();
    let (expired, outdated) = {
        let mvcc = state.mvcc.read();
        (
            mvcc.expired(now, MAX_EXPIRED),
            state.retention.outdated(&mvcc, now),
        )
    };
    if let Some(revision) = outdated {
        group_commit.submit(Command::Compact { revision }).await?;
    }
    expire(group_commit, expired).await
}

/// Queues all deletions before it waits for the first, so that they share a commit.
async fn expire(group_commit: &Arc<GroupCommit>, expired: Vec<(Key, Revision)>) -> Result<(), WriteError> {
    let deletions: Vec<_> = expired
        .into_iter()
        .map(|(key, expected)| group_commit.enqueue(Command::Delete { key, expected }, None))
        .collect();
    for deletion in deletions {
        match answered(deletion?).await {
            // The key was renewed or deleted first.
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
