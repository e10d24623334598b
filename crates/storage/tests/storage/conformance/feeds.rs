//! Feeds: ordered and gap-free, or an explicit error.

use futures::poll_once;
use watchkeeper_storage::{ReadError, Revision, Store};

use crate::conformance::{create, delete, read_until, show_batch, update};

mod futures {
    //! Polls a future once: checks that it waits, without a clock.

    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    pub(super) fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future)
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    }
}

pub(crate) async fn feed_delivers_changes_with_previous_values(store: Store) {
    let mut feed = store.watch("/", store.current_revision()).unwrap();
    let first = create(&store, "/a", "x").await;
    let second = update(&store, "/a", "y", first).await;
    delete(&store, "/a", second).await;
    let last = create(&store, "/a", "z").await;
    assert_eq!(
        read_until(&mut feed, last).await,
        [
            "2 /a = x, created 2",
            "3 /a = y, was x since 2, created 2",
            "4 /a gone, was y since 3, created 2",
            "5 /a = z, created 5",
        ]
    );
}

pub(crate) async fn feed_stays_within_the_prefix(store: Store) {
    let mut feed = store.watch("/b/", Revision::ZERO).unwrap();
    for key in ["/a", "/b/1", "/b", "/c", "/b/2"] {
        create(&store, key, "x").await;
    }
    let batch = feed.next().await.unwrap();
    assert_eq!(
        show_batch(&batch),
        ["3 /b/1 = x, created 3", "6 /b/2 = x, created 6"]
    );
    assert_eq!(batch.revision, Revision::new(6));
}

pub(crate) async fn feed_starts_after_its_revision(store: Store) {
    for key in ["/a", "/b", "/c"] {
        create(&store, key, "x").await;
    }
    for (after, count) in [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0)] {
        let mut feed = store.watch("/", Revision::new(after)).unwrap();
        assert_eq!(feed.read().unwrap().changes.len(), count, "after {after}");
    }
}

pub(crate) async fn feed_waits_for_a_future_revision(store: Store) {
    let mut feed = store.watch("/", Revision::new(3)).unwrap();
    for key in ["/a", "/b"] {
        create(&store, key, "x").await;
        assert!(poll_once(feed.next()).is_pending());
    }
    create(&store, "/c", "x").await;
    assert_eq!(show_batch(&feed.next().await.unwrap()), ["4 /c = x, created 4"]);
}

pub(crate) async fn feed_works_at_the_compacted_revision(store: Store) {
    let first = create(&store, "/a", "x").await;
    let second = update(&store, "/a", "y", first).await;
    let third = update(&store, "/a", "z", second).await;
    delete(&store, "/a", third).await;
    store.compact(second).await.unwrap();
    let batch = store.watch("/", second).unwrap().next().await.unwrap();
    assert_eq!(
        show_batch(&batch),
        [
            "4 /a = z, was y since 3, created 2",
            "5 /a gone, was z since 4, created 2"
        ]
    );
    store.compact(store.current_revision()).await.unwrap();
    let mut feed = store.watch("/", store.current_revision()).unwrap();
    create(&store, "/a", "new").await;
    assert_eq!(show_batch(&feed.next().await.unwrap()), ["6 /a = new, created 6"]);
}

pub(crate) async fn feed_below_the_compacted_revision_is_refused(store: Store) {
    let requested = create(&store, "/a", "x").await;
    let compacted = create(&store, "/b", "x").await;
    let current = create(&store, "/c", "x").await;
    store.compact(compacted).await.unwrap();
    let error = store.watch("/", requested).unwrap_err();
    assert_eq!(
        error,
        ReadError::Compacted {
            requested,
            compacted,
            current
        }
    );
    assert!(error.is_compacted());
}

pub(crate) async fn feed_that_fell_behind_gets_an_error(store: Store) {
    let mut feed = store.watch("/a/", store.current_revision()).unwrap();
    create(&store, "/a/1", "x").await;
    create(&store, "/a/2", "x").await;
    store.compact(Revision::new(2)).await.unwrap();
    assert!(feed.next().await.unwrap_err().is_compacted());
    // The error persists.
    assert!(feed.read().unwrap_err().is_compacted());
}

pub(crate) async fn feed_that_had_nothing_to_read_survives_compaction(store: Store) {
    let mut feed = store.watch("/quiet/", store.current_revision()).unwrap();
    for number in 0..10 {
        create(&store, &format!("/busy/{number}"), "x").await;
    }
    store.compact(store.current_revision()).await.unwrap();
    create(&store, "/quiet/1", "x").await;
    assert_eq!(
        show_batch(&feed.next().await.unwrap()),
        ["12 /quiet/1 = x, created 12"]
    );
}

pub(crate) async fn feed_reports_progress(store: Store) {
    let mut feed = store.watch("/quiet/", store.current_revision()).unwrap();
    let busy = create(&store, "/busy/1", "x").await;
    assert!(poll_once(feed.next()).is_pending());
    let batch = feed.read().unwrap();
    assert_eq!((batch.changes.len(), batch.revision), (0, busy));
    assert_eq!(feed.position(), busy);
}

pub(crate) async fn feed_with_progress_returns_without_changes(store: Store) {
    let mut feed = store
        .watch("/quiet/", store.current_revision())
        .unwrap()
        .with_progress();
    assert!(poll_once(feed.next()).is_pending());
    let busy = create(&store, "/busy/1", "x").await;
    let batch = feed.next().await.unwrap();
    assert_eq!((batch.changes.len(), batch.revision), (0, busy));
    assert!(poll_once(feed.next()).is_pending());
    create(&store, "/quiet/1", "x").await;
    assert_eq!(
        show_batch(&feed.next().await.unwrap()),
        ["3 /quiet/1 = x, created 3"]
    );
}

pub(crate) async fn feed_delivers_long_histories_in_batches(store: Store) {
    let mut feed = store.watch("/a/", Revision::ZERO).unwrap();
    let mut expected = Vec::new();
    for number in 0..3000u64 {
        let key = format!("/{}/{number}", if number % 2 == 0 { "a" } else { "b" });
        let revision = create(&store, &key, "x").await;
        if number % 2 == 0 {
            expected.push(revision);
        }
    }
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let batch = feed.next().await.unwrap();
        assert!(batch.changes.len() < expected.len(), "batches are bounded");
        seen.extend(batch.changes.iter().map(|change| change.revision));
    }
    assert_eq!(seen, expected);
}

pub(crate) async fn feeds_are_independent(store: Store) {
    let mut slow = store.watch("/", Revision::ZERO).unwrap();
    let mut fast = store.watch("/", Revision::ZERO).unwrap();
    for key in ["/a", "/b"] {
        create(&store, key, "x").await;
        assert_eq!(fast.next().await.unwrap().changes.len(), 1);
    }
    drop(fast);
    assert_eq!(slow.next().await.unwrap().changes.len(), 2);
}

pub(crate) async fn many_feeds_see_one_change(store: Store) {
    let readers: Vec<_> = (0..1000)
        .map(|_| {
            let mut feed = store.watch("/a/", store.current_revision()).unwrap();
            tokio::spawn(async move { feed.next().await.unwrap().changes })
        })
        .collect();
    create(&store, "/a/1", "x").await;
    for reader in readers {
        assert_eq!(reader.await.unwrap().len(), 1);
    }
}

pub(crate) async fn close_ends_feeds_after_the_last_change(store: Store) {
    let mut feed = store.watch("/", Revision::ZERO).unwrap();
    create(&store, "/a", "x").await;
    store.close().await;
    assert_eq!(feed.next().await.unwrap().changes.len(), 1);
    assert_eq!(feed.next().await, Err(ReadError::Closed));
    assert_eq!(store.get("/a", None).await, Err(ReadError::Closed));
    assert_eq!(store.watch("/", Revision::FIRST).unwrap_err(), ReadError::Closed);
    let refused = store.create("/b", "x".into(), None).await.unwrap_err();
    assert_eq!(refused.to_string(), "the store is closed");
}
