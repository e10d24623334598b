//! Imports a history with its own revisions, such as that of another cluster.
//!
//! The input is the state at some revision and the changes after it. The output is a [`Snapshot`] from which a store
//! can be forked; its reads and feeds cover that past. Revisions may have gaps, and several changes may share one. New
//! writes of the store follow the last one.

use crate::model::ImportedChange;
use crate::mvcc::Mvcc;
use crate::{Revision, Snapshot};

impl Snapshot {
    /// Builds a history from changes, which are sorted by revision. Changes up to `floor` form the initial state; later
    /// ones can be read and fed one by one. The newest revision is `current`, or that of the last change.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use watchkeeper_storage::{ImportedChange, Revision, Snapshot, Store, StoreOptions};
    ///
    /// let change = |revision, value: &'static str| ImportedChange {
    ///     revision: Revision::new(revision),
    ///     key: "/pods/a".into(),
    ///     value: Some(value.into()),
    ///     written_at: std::time::SystemTime::now(),
    /// };
    /// let changes = vec![change(1000, "first"), change(1700, "second")];
    /// let past = Snapshot::import(Revision::new(1500), Revision::new(1800), changes);
    /// let store = Store::fork(&past, StoreOptions::default());
    ///
    /// assert_eq!(store.get("/pods/a", Some(Revision::new(1500))).await?.unwrap().value, "first");
    /// let found = store.get("/pods/a", None).await?.unwrap();
    /// assert_eq!((found.mod_revision, &found.value[..]), (Revision::new(1700), &b"second"[..]));
    /// assert_eq!(store.create("/pods/b", "new".into(), None).await?, Revision::new(1801));
    /// # store.close().await;
    /// # Ok(()) }
    /// ```
    pub fn import(floor: Revision, current: Revision, mut changes: Vec<ImportedChange>) -> Self {
        changes.sort_by_key(|change| change.revision);
        let mut mvcc = Mvcc::recovering(floor);
        for change in changes {
            let found = mvcc.latest(&change.key);
            if found.is_none() && change.value.is_none() {
                continue;
            }
            let record = change.into_record(found.map(|found| found.create_revision));
            match record.revision <= floor {
                true => mvcc.restore(record, drop),
                false => drop(mvcc.apply(record)),
            }
        }
        mvcc.advance(current);
        Self(mvcc)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use bytes::Bytes;

    use super::*;
    use crate::{ReadError, Store, StoreOptions, WriteError};

    fn change(revision: u64, key: &str, value: Option<&'static str>) -> ImportedChange {
        ImportedChange {
            revision: Revision::new(revision),
            key: key.into(),
            value: value.map(Bytes::from),
            written_at: SystemTime::now(),
        }
    }

    #[tokio::test]
    async fn a_running_store_accepts_later_changes_until_it_is_written_to() {
        let past = Snapshot::import(
            Revision::new(10),
            Revision::new(12),
            vec![change(7, "a", Some("1"))],
        );
        let store = Store::fork(&past, StoreOptions::default());
        let mut feed = store.watch("", Revision::new(10)).unwrap();
        let later = vec![
            change(20, "a", Some("2")),
            change(20, "b", Some("1")),
            change(30, "a", None),
        ];
        assert_eq!(store.import(later).await.unwrap(), Revision::new(30));
        let changes = feed.next().await.unwrap().changes;
        let changes: Vec<_> = changes
            .iter()
            .map(|change| (change.revision.get(), &*change.key))
            .collect();
        assert_eq!(changes, [(20, "a"), (20, "b"), (30, "a")]);
        assert_eq!(
            store.create("c", "1".into(), None).await.unwrap(),
            Revision::new(31)
        );
        let refused = store.import(vec![change(31, "d", Some("1"))]).await;
        assert!(matches!(refused, Err(WriteError::Past { .. })), "{refused:?}");
        let old = store.get("a", Some(Revision::new(9))).await;
        assert!(matches!(old, Err(ReadError::Compacted { .. })), "{old:?}");
        store.close().await;
    }
}
