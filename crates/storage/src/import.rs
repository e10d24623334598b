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
    /// assert_eq!(store.get("/pods/a", Some(Revision::new(1500))).await?.unwrap().value.bytes(), "first");
    /// let found = store.get("/pods/a", None).await?.unwrap();
    /// assert_eq!((found.mod_revision, found.value), (Revision::new(1700), "second".into()));
    /// assert_eq!(store.create("/pods/b", "new".into(), None).await?, Revision::new(1801));
    /// # store.close().await;
    /// # Ok(()) }
    /// ```
    pub fn import(floor: Revision, current: Revision, mut changes: Vec<ImportedChange>) -> Self {
        changes.sort_by_key(|change| change.revision);
        let mut mvcc = Mvcc::recovering(floor);
        for change in changes {
            let created = mvcc.created(&change.key);
            if created.is_none() && change.value.is_none() {
                continue;
            }
            let record = change.into_record(created);
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::SystemTime;

    use bytes::Bytes;

    use super::*;
    use crate::{LateValue, RangeRequest, ReadAt, ReadError, Store, StoreOptions, Value, WriteError};

    fn change(revision: u64, key: &str, value: Option<&'static str>) -> ImportedChange {
        ImportedChange {
            revision: Revision::new(revision),
            key: key.into(),
            value: value.map(Value::from),
            written_at: SystemTime::now(),
        }
    }

    /// Counts how often it is read.
    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl LateValue for Counted {
        fn bytes(&self) -> Bytes {
            self.0.fetch_add(1, Ordering::Relaxed);
            "late".into()
        }

        fn size(&self) -> usize {
            4
        }
    }

    #[tokio::test]
    async fn a_late_value_is_made_when_it_is_read() {
        let late = Arc::new(Counted::default());
        let mut changes = vec![
            change(7, "a", Some("1")),
            change(8, "a", None),
            change(9, "a", None),
        ];
        changes[1].value = Some(Value::Late(late.clone()));
        let past = Snapshot::import(Revision::new(7), Revision::new(9), changes);
        let store = Store::fork(&past, StoreOptions::default());
        assert_eq!((past.len(), store.get("a", None).await.unwrap()), (0, None));
        let changes = store.watch("", Revision::new(7)).unwrap().read().unwrap().changes;
        assert_eq!((changes.len(), late.0.load(Ordering::Relaxed)), (2, 0));
        assert_eq!(changes[1].previous.as_ref().unwrap().0.bytes(), "late");
        let found = store.get("a", Some(Revision::new(8))).await.unwrap().unwrap();
        let request = RangeRequest {
            at: ReadAt::Revision(Revision::new(8)),
            ..Default::default()
        };
        assert_eq!(store.range(&request).await.unwrap().items.len(), 1);
        assert_eq!(late.0.load(Ordering::Relaxed), 1);
        assert_eq!(
            (found.value.bytes(), late.0.load(Ordering::Relaxed)),
            ("late".into(), 2)
        );
        store.close().await;
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
