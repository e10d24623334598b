//! The first read of all keys, from which the watch goes on.
//!
//! It reads the oldest state that etcd still has, within what the store keeps of history: what has happened since comes
//! with the watch, as history, so that clients that were watching before a restart can go on where they were.

use super::client::Client;
use super::error::CallError;
use super::keys::{Keys, Meaning};
use super::messages::{
    KeyValue, RangeRequest, RangeResponse, ResponseHeader, WatchCreateRequest, WatchResponse,
};
use crate::Revision;
use crate::model::Record;
use crate::mvcc::Mvcc;
use crate::transform::{Seal, Values};

/// Keys per page: with the largest values etcd takes, a page is a message of 400 MB, and usually one of 1 MB.
const PAGE: i64 = 250;

/// The etcd that a store is a copy of: the only one whose revisions mean something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Which one it is.
    pub(crate) cluster: u64,
    /// How far it was when it was last heard of. It never goes back.
    pub(crate) revision: Revision,
}

impl Origin {
    /// Asks who is there.
    pub(crate) async fn of(client: &Client, keys: &Keys) -> Result<Self, CallError> {
        let request = RangeRequest {
            key: keys.fence(),
            count_only: true,
            ..Default::default()
        };
        Ok(Self::stated(client.range(&request).await?.header))
    }

    /// Who an answer is from.
    pub(crate) fn stated(header: Option<ResponseHeader>) -> Self {
        let header = header.unwrap_or_default();
        Self {
            cluster: header.cluster_id,
            revision: revision(header.revision),
        }
    }

    /// Sees that an answer is from this one, which may have moved on. Returns how far it is.
    pub(crate) fn check(&self, found: Self) -> Result<Revision, CallError> {
        if found.cluster == self.cluster && found.revision >= self.revision {
            return Ok(found.revision);
        }
        Err(CallError::OtherEtcd {
            known_cluster: self.cluster,
            known: self.revision,
            found_cluster: found.cluster,
            found: found.revision,
        })
    }
}

/// All keys of an etcd at the oldest revision there is, but not more than `max_history` revisions ago.
pub(crate) async fn load(
    client: &Client,
    keys: &Keys,
    values: &Values,
    origin: Origin,
    max_history: u64,
) -> Result<Mvcc, CallError> {
    loop {
        let newest = origin.check(Origin::of(client, keys).await?)?;
        let wanted = Revision::new(newest.get().saturating_sub(max_history)).max(Revision::FIRST);
        let at = match load_at(client, keys, values, origin, wanted).await {
            Err(error) if error.is_compacted() => compacted_revision(client, keys, wanted).await?,
            loaded => return loaded,
        };
        match load_at(client, keys, values, origin, at).await {
            // Somebody compacts at this very moment.
            Err(error) if error.is_compacted() => {}
            loaded => return loaded,
        }
    }
}

async fn load_at(
    client: &Client,
    keys: &Keys,
    values: &Values,
    origin: Origin,
    at: Revision,
) -> Result<Mvcc, CallError> {
    // Nothing is ever written at the first revision: who has all since then has everything.
    let mut mvcc = Mvcc::recovering(if at == Revision::FIRST { Revision::ZERO } else { at });
    let (mut key, range_end) = keys.bounds();
    loop {
        let request = RangeRequest {
            key,
            range_end: range_end.clone(),
            limit: PAGE,
            revision: at.get() as i64,
            count_only: false,
        };
        let RangeResponse { header, kvs, more } = client.range(&request).await?;
        // Each page, because another one may be in its place by now.
        origin.check(Origin::stated(header))?;
        let Some(last) = kvs.last() else { return Ok(mvcc) };
        key = [&last.key[..], &[0]].concat();
        for record in kvs.into_iter().filter_map(|found| record(keys, found)) {
            mvcc.restore(values.opened(record), |_| {});
        }
        if !more {
            return Ok(mvcc);
        }
    }
}

fn record(keys: &Keys, found: KeyValue) -> Option<Record> {
    let Meaning::Key(key) = keys.meaning(&found.key) else {
        return None;
    };
    Some(Record {
        revision: revision(found.mod_revision),
        key,
        value: Some(found.value.into()),
        create_revision: revision(found.create_revision),
        written_at: 0,
        expires_at: None,
        seal: Seal::Current,
    })
}

/// Where history begins, if it does not reach back to `before`. etcd tells only watches.
async fn compacted_revision(client: &Client, keys: &Keys, before: Revision) -> Result<Revision, CallError> {
    let mut answers = client
        .watch(WatchCreateRequest {
            key: keys.fence(),
            start_revision: before.get() as i64,
            ..Default::default()
        })
        .await?;
    while let Some(response) = answers.next::<WatchResponse>().await? {
        if response.compact_revision > 0 {
            return Ok(revision(response.compact_revision));
        }
    }
    Ok(before)
}

/// etcd counts with signs; nothing it tells is below zero.
pub(crate) fn revision(number: i64) -> Revision {
    Revision::new(number.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_etcd_is_told_from_the_one_that_was_known() {
        let origin = |cluster, revision| Origin {
            cluster,
            revision: Revision::new(revision),
        };
        let check = |found: Origin, same: bool| {
            assert_eq!(origin(7, 5).check(found).is_ok(), same, "{found:?}");
        };
        check(origin(7, 5), true);
        check(origin(7, 6), true);
        check(origin(7, 4), false);
        check(origin(8, 6), false);
        check(Origin::stated(None), false);
    }
}
