//! Writes: one transaction each, which compares the key's revision and replaces it.
//!
//! A write is answered after etcd has committed it and the watch has delivered it, so that the
//! writer, and clients it informs, read it here. Nothing is batched: etcd groups concurrent writes into one disk write.
//!
//! If the answer is lost, the watch decides. A change of the key from exactly the expected revision to exactly the
//! written value is this write. If the key has moved on from that revision otherwise, the comparison can never succeed
//! again, so the write has failed. Any other outcome is reported as unknown: it is not retried, because a create could
//! then happen twice, and not reported as a failure, because it may still be applied. A write that another etcd has
//! answered is unknown too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::client::Repeat;
use super::error::CallError;
use super::fresh::Freshness;
use super::load::{Origin, revision};
use super::messages::{
    Compare, CompareTarget, CompareValue, DeleteRangeRequest, KeyValue as Found, LeaseGrantRequest,
    PutRequest, RangeRequest, Request, RequestOp, Response, TxnRequest, TxnResponse,
};
use super::shared::Shared;
use crate::transaction::Command;
use crate::{Change, EngineError, Key, KeyValue, Revision, Value, WriteError};

/// The time a committed write waits for the watch to deliver it. Then it is answered anyway: it has happened, and
/// consistent reads wait on their own.
const ECHO_PATIENCE: Duration = Duration::from_secs(10);

/// A write of one key.
#[derive(Debug)]
pub(crate) struct Write {
    key: Key,
    /// The revision to replace; `None` to create the key.
    expected: Option<Revision>,
    /// `None` to delete it.
    value: Option<Bytes>,
    ttl: Option<Duration>,
}

impl Write {
    /// `None` for commands that do not write a key.
    pub(crate) fn of(command: Command) -> Option<Self> {
        match command {
            Command::Put {
                key,
                value,
                expected,
                ttl,
            } => Some(Self {
                key,
                expected,
                value: Some(value),
                ttl,
            }),
            Command::Delete { key, expected } => Some(Self {
                key,
                expected: Some(expected),
                value: None,
                ttl: None,
            }),
            Command::Compact { .. } | Command::Import { .. } => None,
        }
    }

    /// Runs the write.
    pub(crate) async fn run(
        self,
        shared: &Arc<Shared>,
        freshness: &Arc<Freshness>,
    ) -> Result<Revision, WriteError> {
        let known = shared.origin();
        let request = self.transaction(shared).await?;
        let response = shared.client.txn(&request, Repeat::IfUntried).await;
        let response = response.and_then(|response| {
            known.check(Origin::stated(response.header.clone()))?;
            Ok(response)
        });
        match response {
            Ok(response) => self.answer(shared, response).await,
            Err(error @ CallError::OtherEtcd { .. }) => Err(WriteError::Unknown(EngineError::new(error))),
            Err(error) if error.is_certain() => Err(self.refused(error)),
            Err(error) => {
                // Whatever the result, the core then knows more than before.
                match freshness.refresh(shared).await {
                    Ok(()) => self.resolve(shared, known.revision, error),
                    Err(_) => Err(WriteError::Unknown(EngineError::new(error))),
                }
            }
        }
    }

    async fn transaction(&self, shared: &Shared) -> Result<TxnRequest, WriteError> {
        let Some(key) = shared.keys.stored(&self.key) else {
            let why = format!("{:?} is not a key of this store", self.key);
            return Err(WriteError::Engine(EngineError::new(why)));
        };
        let change = match &self.value {
            None => Request::DeleteRange(DeleteRangeRequest { key: key.clone() }),
            Some(value) => Request::Put(PutRequest {
                key: key.clone(),
                value: shared
                    .values
                    .seal(&self.key, value)
                    .map_err(|error| WriteError::Engine(EngineError::new(error)))?,
                lease: self.lease(shared).await?,
            }),
        };
        // A missing key has revision 0, and no key has revision 1.
        let expected = self.expected.map_or(0, |expected| expected.get().max(1));
        let compare = Compare {
            result: 0,
            target: CompareTarget::Mod as i32,
            key: key.clone(),
            value: Some(CompareValue::ModRevision(expected as i64)),
        };
        let read = Request::Range(RangeRequest {
            key,
            ..Default::default()
        });
        Ok(TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp {
                request: Some(change),
            }],
            failure: vec![RequestOp { request: Some(read) }],
        })
    }

    /// The lease that deletes the key after its TTL; 0 for none.
    ///
    /// Each key has its own. Keys that share a lease are deleted in one revision, and a client whose watch is cut
    /// between two events of one revision has no way to ask for the second.
    async fn lease(&self, shared: &Shared) -> Result<i64, WriteError> {
        let Some(ttl) = self.ttl else { return Ok(0) };
        let seconds = ttl.as_millis().div_ceil(1000).max(1);
        let request = LeaseGrantRequest {
            ttl: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let granted = shared.client.grant(&request).await;
        granted.map(|lease| lease.id).map_err(|error| self.refused(error))
    }

    async fn answer(&self, shared: &Shared, response: TxnResponse) -> Result<Revision, WriteError> {
        if !response.succeeded {
            let found = response.responses.into_iter().find_map(|step| step.response);
            let found = found.and_then(|Response::Range(range)| range.kvs.into_iter().next());
            return Err(WriteError::Conflict {
                current: found.map(|found| self.key_value(shared, found)),
            });
        }
        let written = revision(response.header.unwrap_or_default().revision);
        let echo = shared.arrivals.wait_for(&shared.state, written);
        if timeout(ECHO_PATIENCE, echo).await.is_err() {
            tracing::warn!(revision = written.get(), "written, but the watch is behind");
        }
        Ok(written)
    }

    fn key_value(&self, shared: &Shared, found: Found) -> KeyValue {
        KeyValue {
            key: self.key.clone(),
            value: shared.values.open(&self.key, found.value.into()).0.into(),
            create_revision: revision(found.create_revision),
            mod_revision: revision(found.mod_revision),
        }
    }

    /// Determines the outcome of a write that was sent after `before` was visible.
    fn resolve(&self, shared: &Shared, before: Revision, error: CallError) -> Result<Revision, WriteError> {
        let mvcc = shared.state.mvcc.read();
        let has_all = mvcc.history().floor() <= before;
        if let Some(ours) = mvcc.changes_after(before).find(|change| self.is_ours(change))
            && has_all
        {
            return Ok(ours.revision);
        }
        let current = mvcc.latest(&self.key);
        let found = current.as_ref().map(|found| found.mod_revision);
        match self.expected {
            // Revisions never repeat.
            Some(_) if self.value.is_some() && has_all && found != self.expected => {
                Err(WriteError::Conflict { current })
            }
            _ => Err(WriteError::Unknown(EngineError::new(error))),
        }
    }

    /// True if a change is this write. A deletion could be anyone's.
    fn is_ours(&self, change: &Change) -> bool {
        self.value.is_some()
            && change.key == self.key
            && change.value.as_ref().map(Value::bytes) == self.value
            && change.previous.as_ref().map(|(_, since)| *since) == self.expected
    }

    /// The error of a write that etcd rejected without applying it.
    fn refused(&self, error: CallError) -> WriteError {
        let size = self.value.as_ref().map_or(0, Bytes::len);
        match &error {
            CallError::Status { message, .. } if message.contains("request is too large") => {
                WriteError::ValueTooLarge {
                    size,
                    limit: size.saturating_sub(1),
                }
            }
            CallError::Status { message, .. } if message.contains("database space exceeded") => {
                WriteError::NoSpace
            }
            _ => WriteError::Engine(EngineError::new(error)),
        }
    }
}
