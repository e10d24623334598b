//! Expiry and compaction by age, on tokio's clock.

use std::time::Duration;

use tokio::time::{advance, sleep};
use watchkeeper_storage::{Revision, Store};

use crate::conformance::{create, delete, read_until, update, value};

const TTL: Option<Duration> = Some(Duration::from_secs(60));
/// Long enough after a deadline for maintenance to have run; the paused clock jumps over it.
const SETTLED: Duration = Duration::from_secs(1);

pub(crate) async fn expired_keys_are_deleted(store: Store) {
    store.create("/a", "x".into(), TTL).await.unwrap();
    create(&store, "/b", "x").await;
    let mut feed = store.watch("/a", store.current_revision()).unwrap();
    sleep(Duration::from_secs(59)).await;
    assert_eq!(value(&store, "/a", None).await.as_deref(), Some("x"));
    let batch = feed.next().await.unwrap();
    assert_eq!(
        crate::conformance::show_batch(&batch),
        ["4 /a gone, was x since 2, created 2"]
    );
    assert_eq!(value(&store, "/a", None).await, None);
    assert_eq!(value(&store, "/b", None).await.as_deref(), Some("x"));
}

pub(crate) async fn update_moves_the_expiry(store: Store) {
    let created = store.create("/a", "x".into(), TTL).await.unwrap();
    sleep(Duration::from_secs(30)).await;
    store.update("/a", "y".into(), created, TTL).await.unwrap();
    sleep(Duration::from_secs(59)).await;
    assert_eq!(value(&store, "/a", None).await.as_deref(), Some("y"));
    sleep(SETTLED + SETTLED).await;
    assert_eq!(value(&store, "/a", None).await, None);
}

pub(crate) async fn update_without_ttl_ends_the_expiry(store: Store) {
    let created = store.create("/a", "x".into(), TTL).await.unwrap();
    update(&store, "/a", "y", created).await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(value(&store, "/a", None).await.as_deref(), Some("y"));
}

pub(crate) async fn recreated_keys_do_not_inherit_an_expiry(store: Store) {
    let created = store.create("/a", "x".into(), TTL).await.unwrap();
    delete(&store, "/a", created).await;
    create(&store, "/a", "y").await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(value(&store, "/a", None).await.as_deref(), Some("y"));
}

pub(crate) async fn expiry_of_many_keys(store: Store) {
    for number in 0..1000 {
        store
            .create(&format!("/{number}"), "x".into(), TTL)
            .await
            .unwrap();
    }
    let mut feed = store.watch("/", store.current_revision()).unwrap();
    sleep(Duration::from_secs(60) + SETTLED).await;
    assert_eq!(store.current_revision(), Revision::new(2001));
    assert_eq!(read_until(&mut feed, Revision::new(2001)).await.len(), 1000);
    assert_eq!(store.range(&Default::default()).await.unwrap().items, []);
}

pub(crate) async fn old_history_is_compacted(store: Store) {
    let old = create(&store, "/a", "x").await;
    sleep(Duration::from_secs(4 * 60)).await;
    let young = update(&store, "/a", "y", old).await;
    sleep(Duration::from_secs(3 * 60)).await;
    assert_eq!(store.compacted_revision(), old);
    assert_eq!(value(&store, "/a", Some(old)).await.as_deref(), Some("x"));
    sleep(Duration::from_secs(3 * 60)).await;
    assert_eq!(store.compacted_revision(), young);
    assert!(store.get("/a", Some(old)).await.unwrap_err().is_compacted());
    assert_eq!(value(&store, "/a", None).await.as_deref(), Some("y"));
}

pub(crate) async fn young_history_is_kept(store: Store) {
    let created = create(&store, "/a", "x").await;
    update(&store, "/a", "y", created).await;
    advance(Duration::from_secs(5 * 60)).await;
    tokio::task::yield_now().await;
    assert_eq!(value(&store, "/a", Some(created)).await.as_deref(), Some("x"));
    store.watch("/", Revision::ZERO).unwrap();
}
