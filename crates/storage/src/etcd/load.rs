//! The initial list of all keys, from which the watch continues.
//!
//! It reads the oldest state that etcd still has, within the store's retention. The watch then delivers what happened
//! since as history, so that clients that were watching before a restart can resume.

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

/// Keys per page. With values of the largest size that etcd accepts a page has 400 MB; usually it has 1 MB.
const PAGE: i64 = 250;

/// The etcd that a store follows: the only one whose revisions have a meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The cluster ID.
    pub(crate) cluster: u64,
    /// The highest revision seen. It never goes back.
    pub(crate) revision: Revision,
}

impl Origin {
    /// Asks etcd.
    pub(crate) async fn of(client: &Client, keys: &Keys) -> Result<Self, CallError> {
        let request = RangeRequest {
            key: keys.fence(),
            count_only: true,
            ..Default::default()
        };
        Ok(Self::stated(client.range(&request).await?.header))
    }

    /// The origin of an answer.
    pub(crate) fn stated(header: Option<ResponseHeader>) -> Self {
        let header = header.unwrap_or_default();
        Self {
            cluster: header.cluster_id,
            revision: revision(header.revision),
        }
    }

    /// Checks that an answer is from this etcd at this or a later revision. Returns its revision.
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

/// Lists all keys at the oldest available revision, at most `max_history` revisions back.
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
            // Compacted in the meantime: try again.
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
    // No write ever has revision 1: a history that starts there is complete.
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
        // Checked for each page, because another etcd may have taken its place.
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

/// The compacted revision, if it is later than `before`. etcd reports it only to watches.
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

/// Converts etcd's signed revisions, which are never negative.
pub(crate) fn revision(number: i64) -> Revision {
    Revision::new(number.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_etcd_or_an_older_state_is_detected() {
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
