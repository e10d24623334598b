//! A history that somebody else has written, at its own revisions.
//!
//! In flow what there was at some revision and the changes after it, as another cluster had them; out flows a
//! [`Snapshot`] to fork a store from, which reads and feeds that past as its own. Revisions may have holes, and several
//! changes may share one. New writes of the store come after the last of them.

use crate::model::ImportedChange;
use crate::mvcc::Mvcc;
use crate::{Revision, Snapshot};

impl Snapshot {
    /// Makes a history of changes, which are put in the order of their revisions. Those up to `floor` are what there was
    /// then; those after it can be read and fed one by one. The newest revision is `current`, or that of the last change.
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
    async fn a_running_store_takes_later_changes_until_somebody_writes() {
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
        let told = feed.next().await.unwrap().changes;
        let told: Vec<_> = told
            .iter()
            .map(|change| (change.revision.get(), &*change.key))
            .collect();
        assert_eq!(told, [(20, "a"), (20, "b"), (30, "a")]);
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
