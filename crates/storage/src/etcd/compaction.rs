//! What is forgotten, here and in etcd.
//!
//! Here, what is older than the store keeps. In etcd, every so often, what was there one interval ago: of all servers
//! that share an etcd one does it, namely whoever is first to raise the version of a key that they all know. That key and
//! this way are kube-apiserver's, so that both can share an etcd without one taking the other's history away.

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

/// The key whose version counts compactions. It is outside of any prefix, as history is.
const KEY: &[u8] = b"compact_rev_key";

/// Where the last round left off.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// How often the key was written.
    version: i64,
    /// What was the newest revision then.
    revision: i64,
}

/// Forgets what is too old here, until the store is closed.
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

/// Takes part in compacting etcd, until the store is closed.
pub(crate) async fn compact_etcd(shared: Arc<Shared>, freshness: Arc<Freshness>, interval: Duration) {
    let mut round = Round::default();
    loop {
        tokio::time::sleep(interval).await;
        // If nothing happens to our keys, the watch stays behind what is about to be forgotten, and could not be resumed.
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
        // Somebody else was first; the key says how far they went.
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

/// Raises the key's version, if it is the last one; else reads it.
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

/// Compacts etcd, then forgets the same here.
async fn compact(shared: &Shared, at: Revision) -> Result<(), CallError> {
    let request = CompactionRequest {
        revision: at.get() as i64,
    };
    match shared.client.compact(&request).await {
        // It may be this call that has done so, if its answer was lost and it was sent again.
        Err(error) if error.is_compacted() => {}
        done => done?,
    }
    shared.state.compact(at);
    Ok(())
}

/// Compacts because a user says so.
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
