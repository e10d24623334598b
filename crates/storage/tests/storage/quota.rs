//! A full store: writes that grow it are refused, writes that free space are not, and freed space is usable at once.

use std::path::Path;

use watchkeeper_storage::{Revision, Store, StoreOptions, WriteError};

const QUOTA: u64 = 100_000;

async fn open(dir: &Path) -> Store {
    let options = StoreOptions {
        quota_bytes: Some(QUOTA),
        ..StoreOptions::default()
    };
    Store::open(dir, options).await.unwrap()
}

async fn create(store: &Store, key: &str, bytes: usize) -> Result<Revision, WriteError> {
    store.create(key, vec![b'x'; bytes].into(), None).await
}

/// Creates keys until the store is full. Returns their number.
async fn fill(store: &Store) -> usize {
    for number in 0.. {
        match create(store, &format!("/{number}"), 1000).await {
            Ok(_) => {}
            Err(WriteError::NoSpace) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

#[tokio::test]
async fn a_full_store_refuses_only_writes_that_grow_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let count = fill(&store).await;
    assert!((90..=100).contains(&count), "{count}");
    assert!(store.usage().is_full);
    assert!(store.usage().used_bytes <= QUOTA + 2000);
    assert!(store.is_writable());

    let key = store.get("/0", None).await.unwrap().unwrap();
    let larger = store
        .update("/0", vec![b'y'; 3000].into(), key.mod_revision, None)
        .await;
    assert!(matches!(larger, Err(WriteError::NoSpace)));
    // A status of the same size, or a removed finalizer: writes an operator needs to free space.
    let smaller = store
        .update("/0", "y".into(), key.mod_revision, None)
        .await
        .unwrap();
    store.delete("/0", smaller).await.unwrap();
    for number in 1..6 {
        let found = store.get(&format!("/{number}"), None).await.unwrap().unwrap();
        store.delete(&found.key, found.mod_revision).await.unwrap();
    }
    create(&store, "/new", 1000).await.unwrap();
    assert!(!store.usage().is_full, "{:?}", store.usage());
    store.close().await;
}

#[tokio::test]
async fn a_full_store_is_full_after_a_restart_with_the_same_usage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    fill(&store).await;
    let key = store.get("/1", None).await.unwrap().unwrap();
    store.delete("/1", key.mod_revision).await.unwrap();
    store.compact(store.current_revision()).await.unwrap();
    store.defragment().await.unwrap();
    let used = store.usage().used_bytes;
    store.close().await;
    let again = open(dir.path()).await;
    assert_eq!(again.usage().used_bytes, used);
    create(&again, "/1", 900).await.unwrap();
    assert!(matches!(
        create(&again, "/2000", 2000).await,
        Err(WriteError::NoSpace)
    ));
    again.close().await;
}

/// History is dropped before a write is refused.
#[tokio::test]
async fn updates_never_fill_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let mut revision = create(&store, "/a", 1000).await.unwrap();
    for number in 0..500 {
        let value = vec![number as u8; 1000 + number];
        revision = store.update("/a", value.into(), revision, None).await.unwrap();
    }
    assert!(store.compacted_revision() > Revision::ZERO);
    store.close().await;
}

#[tokio::test]
async fn defragmenting_returns_space_to_the_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
    for number in 0..200 {
        create(&store, &format!("/{number}"), 100_000).await.unwrap();
    }
    for number in 0..199 {
        let found = store.get(&format!("/{number}"), None).await.unwrap().unwrap();
        store.delete(&found.key, found.mod_revision).await.unwrap();
    }
    store.compact(store.current_revision()).await.unwrap();
    let before = store.usage().file_bytes;
    // Writers wait meanwhile, and are not refused.
    let (defragmented, written) = tokio::join!(store.defragment(), create(&store, "/meanwhile", 10));
    defragmented.unwrap();
    written.unwrap();
    let after = store.usage().file_bytes;
    assert!(after < before / 4, "{before} bytes became {after}");
    let left = store.range(&Default::default()).await.unwrap();
    store.close().await;
    let again = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
    assert_eq!(again.range(&Default::default()).await.unwrap(), left);
    again.close().await;
}
