//! Compaction, in memory and in etcd.
//!
//! In memory, history beyond the store's retention is dropped. etcd is compacted periodically at the revision of one
//! interval ago. One of the servers that share an etcd does it: the first to increment the version of a well-known key.
//! Key and protocol are kube-apiserver's, so both can share an etcd without compacting each other's history.

use std::sync::Arc;
use std::time::Duration;

use super::client::Repeat;
use super::error::CallError;
use super::fresh::Freshness;
use super::load::revision;
use super::messages::{
    CompactionRequest, Compare, CompareTarget, CompareValue, PutRequest, RangeRequest, Request, RequestOp,
    Response, TxnRequest,
};
use super::shared::Shared;
use crate::maintenance::sleep_until;
use crate::{EngineError, Revision, WriteError};

/// The key whose version counts compactions. It is outside of any prefix, since history is shared too.
const KEY: &[u8] = b"compact_rev_key";

/// The state after the last round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// The version of the key.
    version: i64,
    /// The newest revision at that time.
    revision: i64,
}

/// Drops old history from memory, until the store is closed.
pub(crate) async fn drop_old_history(shared: Arc<Shared>) {
    let state = &shared.state;
    let mut due = state.due.subscribe();
    loop {
        let next = *due.borrow_and_update();
        tokio::select! {
            changed = due.changed() => if changed.is_err() { return },
            () = sleep_until(state, next) => {
                let outdated = state.retention.outdated(&state.mvcc.read(), state.clock.now());
                if let Some(revision) = outdated {
                    state.compact(revision);
                }
            }
        }
    }
}

/// Takes part in the compaction of etcd, until the store is closed.
pub(crate) async fn compact_etcd(shared: Arc<Shared>, freshness: Arc<Freshness>, interval: Duration) {
    let mut round = Round::default();
    loop {
        tokio::time::sleep(interval).await;
        // Without changes of our keys the watch lags behind the revision to compact, and could not be resumed. So
        // refresh first.
        let compacted = match freshness.refresh(&shared).await {
            Ok(()) => compact_once(&shared, round)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match compacted {
            Ok(next) => round = next,
            Err(error) => tracing::warn!("etcd was not compacted: {error}"),
        }
    }
}

async fn compact_once(shared: &Shared, last: Round) -> Result<Round, CallError> {
    let response = shared.client.txn(&raise(last), Repeat::IfUntried).await?;
    let now = response.header.unwrap_or_default().revision;
    if !response.succeeded {
        // Another server was first; the key has its revision.
        let found = response.responses.into_iter().find_map(|step| step.response);
        let found = found.and_then(|Response::Range(range)| range.kvs.into_iter().next());
        let found = found.unwrap_or_default();
        let compacted = std::str::from_utf8(&found.value)
            .ok()
            .and_then(|text| text.parse().ok());
        shared.state.compact(revision(compacted.unwrap_or_default()));
        return Ok(Round {
            version: found.version,
            revision: now,
        });
    }
    if last.revision > 0 {
        compact(shared, revision(last.revision)).await?;
    }
    Ok(Round {
        version: last.version + 1,
        revision: now,
    })
}

/// Increments the key's version if it is still the last known one; otherwise reads it.
fn raise(last: Round) -> TxnRequest {
    let compare = Compare {
        result: 0,
        target: CompareTarget::Version as i32,
        key: KEY.to_vec(),
        value: Some(CompareValue::Version(last.version)),
    };
    let put = PutRequest {
        key: KEY.to_vec(),
        value: last.revision.to_string().into(),
        lease: 0,
    };
    let read = RangeRequest {
        key: KEY.to_vec(),
        ..Default::default()
    };
    let step = |request| {
        vec![RequestOp {
            request: Some(request),
        }]
    };
    TxnRequest {
        compare: vec![compare],
        success: step(Request::Put(put)),
        failure: step(Request::Range(read)),
    }
}

/// Compacts etcd, then the copy in memory.
async fn compact(shared: &Shared, at: Revision) -> Result<(), CallError> {
    let request = CompactionRequest {
        revision: at.get() as i64,
    };
    match shared.client.compact(&request).await {
        // Possibly by this very call, if its answer was lost and it was retried.
        Err(error) if error.is_compacted() => {}
        done => done?,
    }
    shared.state.compact(at);
    Ok(())
}

/// Compacts on request.
pub(crate) async fn compact_now(shared: &Shared, at: Revision) -> Result<Revision, WriteError> {
    match compact(shared, at).await {
        Err(error) if error.is_future() => Err(WriteError::Future {
            requested: at,
            current: shared.state.mvcc.read().current(),
        }),
        Err(error) => Err(WriteError::Engine(EngineError::new(error))),
        Ok(()) => Ok(at),
    }
}
