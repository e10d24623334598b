//! Restarts of a durable store.

use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;
use watchkeeper_storage::{Revision, Store, StoreOptions};

async fn open(dir: &Path) -> Store {
    Store::open(dir, StoreOptions::default()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_feed_resumes_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let first = store.create("/a", "x".into(), None).await.unwrap();
    let second = store.update("/a", "y".into(), first, None).await.unwrap();
    store.close().await;

    let store = open(dir.path()).await;
    let mut feed = store.watch("/", first).unwrap();
    let third = store.delete("/a", second).await.unwrap();
    let batch = feed.next().await.unwrap();
    let seen: Vec<_> = batch
        .changes
        .iter()
        .map(|change| (change.revision, change.previous.clone()))
        .collect();
    assert_eq!(
        seen,
        [
            (second, Some(("x".into(), first))),
            (third, Some(("y".into(), second)))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn revisions_grow_even_if_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let created = store.create("/a", "x".into(), None).await.unwrap();
    let deleted = store.delete("/a", created).await.unwrap();
    store.compact(deleted).await.unwrap();
    store.close().await;

    let store = open(dir.path()).await;
    assert_eq!(store.current_revision(), deleted);
    assert_eq!(store.compacted_revision(), deleted);
    assert!(store.watch("/", created).unwrap_err().is_compacted());
    assert_eq!(
        store.create("/b", "x".into(), None).await.unwrap(),
        Revision::new(4)
    );
}

#[tokio::test(start_paused = true)]
async fn keys_expire_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store
        .create("/a", "x".into(), Some(Duration::from_secs(60)))
        .await
        .unwrap();
    store.close().await;

    let store = open(dir.path()).await;
    sleep(Duration::from_secs(50)).await;
    assert!(store.get("/a", None).await.unwrap().is_some());
    sleep(Duration::from_secs(20)).await;
    assert!(store.get("/a", None).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn history_grows_old_across_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let created = store.create("/a", "x".into(), None).await.unwrap();
    store.close().await;

    let store = open(dir.path()).await;
    assert_eq!(store.compacted_revision(), Revision::ZERO);
    sleep(Duration::from_secs(6 * 60)).await;
    assert_eq!(store.compacted_revision(), created);
}

#[tokio::test]
async fn writes_in_progress_are_finished_by_close() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let writers: Vec<_> = (0..100)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.create(&format!("/{number}"), "x".into(), None).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    let mut acknowledged = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(_) => acknowledged += 1,
            Err(error) => assert_eq!(error.to_string(), "the store is closed"),
        }
    }
    let store = open(dir.path()).await;
    assert_eq!(
        store.range(&Default::default()).await.unwrap().items.len(),
        acknowledged
    );
}
