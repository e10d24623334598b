//! History is bounded by count and by size, whatever its age.

use watchkeeper_storage::{Retention, Revision, Store, StoreOptions};

const VALUE_BYTES: usize = 1000;

/// The length of the history after each of many updates of one key.
async fn history_lengths(retention: Retention) -> Vec<u64> {
    let store = Store::memory(StoreOptions {
        retention,
        ..Default::default()
    });
    let mut revision = store
        .create("/a", vec![0; VALUE_BYTES].into(), None)
        .await
        .unwrap();
    let mut lengths = Vec::new();
    for _ in 0..1000 {
        let value = vec![0; VALUE_BYTES].into();
        revision = store.update("/a", value, revision, None).await.unwrap();
        let oldest = store.compacted_revision().max(Revision::FIRST);
        lengths.push(revision.get() - oldest.get());
    }
    store.close().await;
    lengths
}

#[tokio::test(start_paused = true)]
async fn the_number_of_changes_is_bounded() {
    let lengths = history_lengths(Retention {
        revisions: 80,
        ..Default::default()
    })
    .await;
    // The limit plus one eighth, plus the write that exceeds it.
    assert_eq!(lengths.iter().max(), Some(&91));
    assert!(lengths[100..].iter().all(|&length| length >= 80));
}

#[tokio::test(start_paused = true)]
async fn superseded_bytes_are_bounded() {
    let lengths = history_lengths(Retention {
        superseded_bytes: 80 * VALUE_BYTES as u64,
        ..Default::default()
    })
    .await;
    // One more than above, because the first change superseded nothing.
    assert_eq!(lengths.iter().max(), Some(&92));
}

#[tokio::test(start_paused = true)]
async fn creating_keys_supersedes_nothing() {
    let retention = Retention {
        superseded_bytes: 0,
        ..Default::default()
    };
    let store = Store::memory(StoreOptions {
        retention,
        ..Default::default()
    });
    for number in 0..1000 {
        store
            .create(&format!("/{number}"), "x".into(), None)
            .await
            .unwrap();
    }
    assert_eq!(store.compacted_revision(), Revision::ZERO);
    store.close().await;
}
