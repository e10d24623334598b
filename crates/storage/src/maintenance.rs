//! What a store does by itself: deletes keys whose time has come, and forgets history that is too old.
//!
//! It sleeps until the next of these is due, and looks at the wall clock once a minute until then; if nothing is due, it
//! uses no CPU. Both go through the write path like any other write; an expiry is a normal deletion at the revision that
//! was seen, so a key renewed meanwhile stays.

use std::sync::Arc;
use std::time::Duration;

use crate::group_commit::{GroupCommit, answered};
use crate::model::UnixMillis;
use crate::state::State;
use crate::transaction::Command;
use crate::{Key, Revision, WriteError};

/// The most keys expired in one go.
const MAX_EXPIRED: usize = 256;
/// The pause after the engine has failed.
const RETRY: Duration = Duration::from_secs(1);

/// Works until the store is closed.
pub(crate) async fn run(state: Arc<State>, group_commit: Arc<GroupCommit>) {
    let mut due = state.due.subscribe();
    loop {
        let next = *due.borrow_and_update();
        tokio::select! {
            changed = due.changed() => if changed.is_err() { return },
            () = sleep_until(&state, next) => match tend(&state, &group_commit).await {
                Ok(()) => {}
                Err(WriteError::Closed) => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            },
        }
    }
}

/// Sleeps until a time comes, if one is set.
pub(crate) async fn sleep_until(state: &State, due: Option<UnixMillis>) {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    while state.clock.now() < due {
        tokio::time::sleep_until(state.clock.instant(due)).await;
    }
}

/// Does what is due.
async fn tend(state: &State, group_commit: &Arc<GroupCommit>) -> Result<(), WriteError> {
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

/// Queues all deletions before it waits for one, so that they share a commit.
async fn expire(group_commit: &Arc<GroupCommit>, expired: Vec<(Key, Revision)>) -> Result<(), WriteError> {
    let deletions: Vec<_> = expired
        .into_iter()
        .map(|(key, expected)| group_commit.enqueue(Command::Delete { key, expected }, None))
        .collect();
    for deletion in deletions {
        match answered(deletion?).await {
            // Somebody renewed or deleted it first, which is fine.
            Ok(_) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
