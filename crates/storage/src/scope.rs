//! Per-caller overrides: the revision that reads return, whether writes are allowed, and a record of what was written.
//!
//! A store has many callers, and a test injects faults into one of them: this request reads an older revision, that one
//! finds the disk full. The caller is known far above the store, so the overrides travel with the future instead of
//! through every signature. Calls outside a scope pay one thread-local lookup.

use std::cell::RefCell;
use std::sync::Arc;

use crate::{Change, ReadAt, Revision};

tokio::task_local! {
    static CURRENT: Terms;
}

/// The overrides of one caller. They apply wherever the future is polled, but not in tasks that it spawns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Writes are refused with [`WriteError::ReadOnly`](crate::WriteError::ReadOnly).
    pub read_only: bool,
    /// Reads without a revision return this one.
    pub read_at: Option<Revision>,
}

struct Terms {
    scope: Scope,
    written: RefCell<Vec<Arc<Change>>>,
}

impl Scope {
    /// Runs a future in this scope. Returns its output and the changes it made, in order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use watchkeeper_storage::{Scope, Store, StoreOptions};
    ///
    /// let store = Store::memory(StoreOptions::default());
    /// let (revision, written) = Scope::default().run(store.create("/pods/a", "first".into(), None)).await;
    /// assert_eq!(written[0].revision, revision?);
    ///
    /// let full = Scope { read_only: true, ..Scope::default() };
    /// let (refused, _) = full.run(store.create("/pods/b", "second".into(), None)).await;
    /// assert!(refused.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn run<F: Future>(self, future: F) -> (F::Output, Vec<Arc<Change>>) {
        let terms = Terms {
            scope: self,
            written: RefCell::default(),
        };
        let noted = async {
            let output = future.await;
            (output, CURRENT.with(|terms| terms.written.take()))
        };
        CURRENT.scope(terms, noted).await
    }

    /// The scope of the current caller.
    pub(crate) fn current() -> Self {
        CURRENT.try_with(|terms| terms.scope).unwrap_or_default()
    }

    /// The revision that a read returns in this scope.
    pub(crate) fn moment(self, asked: ReadAt) -> ReadAt {
        match (asked, self.read_at) {
            (ReadAt::Latest | ReadAt::Visible, Some(revision)) => ReadAt::Revision(revision),
            (asked, _) => asked,
        }
    }
}

/// Records a change of the current caller, if it is in a scope.
pub(crate) fn note(change: impl FnOnce() -> Option<Arc<Change>>) {
    // Fails outside a scope, where nothing is recorded.
    let _ = CURRENT.try_with(|terms| terms.written.borrow_mut().extend(change()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RangeRequest, Store, StoreOptions, WriteError};

    #[tokio::test]
    async fn a_scope_records_the_writes_of_its_future_only() {
        let store = Store::memory(StoreOptions::default());
        let (_, written) = Scope::default()
            .run(async {
                let created = store.create("/a", "1".into(), None).await.unwrap();
                store.update("/a", "2".into(), created, None).await.unwrap();
                let _ = store.update("/a", "3".into(), created, None).await.unwrap_err();
            })
            .await;
        store.create("/b", "1".into(), None).await.unwrap();
        let values: Vec<_> = written
            .iter()
            .map(|change| change.value.as_ref().unwrap().bytes())
            .collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(written[1].previous.as_ref().unwrap().0, "1".into());
    }

    #[tokio::test]
    async fn a_read_only_scope_refuses_writes_of_its_future_only() {
        let store = Store::memory(StoreOptions::default());
        let created = store.create("/a", "1".into(), None).await.unwrap();
        let full = Scope {
            read_only: true,
            ..Scope::default()
        };
        let (refused, _) = full.run(store.delete("/a", created)).await;
        assert!(matches!(refused, Err(WriteError::ReadOnly)));
        store.delete("/a", created).await.unwrap();
    }

    #[tokio::test]
    async fn reads_in_a_scope_return_its_revision() {
        let store = Store::memory(StoreOptions::default());
        let first = store.create("/a", "1".into(), None).await.unwrap();
        store.update("/a", "2".into(), first, None).await.unwrap();
        store.create("/b", "1".into(), None).await.unwrap();
        let stale = Scope {
            read_at: Some(first),
            ..Scope::default()
        };
        let all = RangeRequest::default();
        let read = async { (store.get("/a", None).await, store.range(&all).await) };
        let ((one, many), _) = stale.run(read).await;
        assert_eq!(one.unwrap().unwrap().value.bytes(), "1");
        let many = many.unwrap();
        assert_eq!((many.items.len(), many.revision), (1, first));
    }
}
