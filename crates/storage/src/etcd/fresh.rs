//! Consistent reads: asks etcd for its revision, and waits until the copy in memory has reached it.
//!
//! A reader that arrives during a request waits for the next one, since the answer in flight may predate it. So there
//! is one request at a time, however many readers there are.
//!
//! etcd counts the writes of all its users. If it is ahead because of foreign keys, the watch delivers nothing. Then
//! etcd is asked for the progress of the watch. Before 3.4.31 and 3.5.13 it may answer before it has delivered all
//! events; there, or without an answer, the fence key is written, which the watch does deliver.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::client::{CALL_TIMEOUT, Repeat};
use super::error::CallError;
use super::load::revision;
use super::messages::{PutRequest, Request, RequestOp, TxnRequest};
use super::shared::Shared;
use crate::{ReadError, Revision};

/// The time the watch may take before etcd is asked for its progress, which costs little.
const ASK_AFTER: Duration = Duration::from_millis(2);
/// The time the watch may take before the missing revisions are assumed to be of foreign keys.
const FENCE_AFTER: Duration = Duration::from_millis(20);
/// The same for a new watch or the answer to a request, which may take longer: etcd serves watches that catch up every
/// 100 ms, and does not answer for them.
const LATE: Duration = Duration::from_millis(300);

/// The waiting readers.
#[derive(Debug, Default)]
pub(crate) struct Freshness(Mutex<Readers>);

#[derive(Debug, Default)]
struct Readers {
    waiting: Vec<oneshot::Sender<Result<(), ReadError>>>,
    is_asking: bool,
}

impl Freshness {
    /// Waits until every write that anyone acknowledged before the call is visible.
    pub(crate) async fn refresh(self: &Arc<Self>, shared: &Arc<Shared>) -> Result<(), ReadError> {
        shared.state.open()?;
        let (answer, answered) = oneshot::channel();
        let asks = {
            let mut readers = self.0.lock();
            readers.waiting.push(answer);
            !std::mem::replace(&mut readers.is_asking, true)
        };
        if asks {
            tokio::spawn(self.clone().ask(shared.clone()));
        }
        answered.await.unwrap_or(Err(ReadError::Closed))
    }

    /// Asks etcd as long as there are waiting readers.
    async fn ask(self: Arc<Self>, shared: Arc<Shared>) {
        while let Some(readers) = self.take() {
            let answer = catch_up(&shared).await;
            for reader in readers {
                // The reader may have given up.
                let _ = reader.send(answer.clone());
            }
        }
    }

    fn take(&self) -> Option<Vec<oneshot::Sender<Result<(), ReadError>>>> {
        let mut readers = self.0.lock();
        readers.is_asking = !readers.waiting.is_empty();
        readers.is_asking.then(|| std::mem::take(&mut readers.waiting))
    }
}

async fn catch_up(shared: &Shared) -> Result<(), ReadError> {
    let newest = shared.newest_revision().await.map_err(unavailable)?;
    let mut arrival = pin!(shared.arrivals.wait_for(&shared.state, newest));
    if timeout(ASK_AFTER, &mut arrival).await.is_ok() {
        return Ok(());
    }
    let patience = match shared.ask_for_progress() {
        true => LATE,
        false => FENCE_AFTER.max(LATE.saturating_sub(shared.watched_for())),
    };
    if timeout(patience, arrival).await.is_ok() {
        return Ok(());
    }
    let fence = write_fence(shared).await.map_err(unavailable)?;
    let arrival = shared.arrivals.wait_for(&shared.state, fence);
    let late = |_| ReadError::Unavailable {
        why: "the watch of etcd is behind".to_owned(),
    };
    timeout(CALL_TIMEOUT, arrival).await.map_err(late)
}

async fn write_fence(shared: &Shared) -> Result<Revision, CallError> {
    let put = PutRequest {
        key: shared.keys.fence(),
        value: Bytes::new(),
        lease: 0,
    };
    let request = TxnRequest {
        success: vec![RequestOp {
            request: Some(Request::Put(put)),
        }],
        ..Default::default()
    };
    let response = shared.client.txn(&request, Repeat::Always).await?;
    Ok(revision(response.header.unwrap_or_default().revision))
}

fn unavailable(error: CallError) -> ReadError {
    ReadError::Unavailable {
        why: error.to_string(),
    }
}
