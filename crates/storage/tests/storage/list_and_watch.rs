//! The main guarantee of a store: a range and the feed after it produce a copy that is always correct.
//!
//! Writers, a compactor and readers run concurrently. Each reader maintains a copy of a prefix; if it falls behind, it
//! starts over with a range. In the end every copy equals the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use watchkeeper_storage::{Batch, Key, RangeRequest, ReadAt, ReadError, Revision, Store, WriteError};

const WRITERS: u64 = 8;
const WRITES: u64 = 300;
const READERS: usize = 12;
const PREFIXES: [&str; 4] = ["/", "/a/", "/b/", "/b/1"];

type Copied = BTreeMap<Key, Revision>;

/// A writer with its own random generator: creates, updates and deletes keys that others write too.
async fn write(store: Store, mut seed: u64) {
    for _ in 0..WRITES {
        // Knuth's MMIX generator.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let key = format!(
            "/{}/{}",
            if seed >> 63 == 0 { "a" } else { "b" },
            (seed >> 40) % 20
        );
        let found = store.get(&key, None).await.unwrap();
        let written = match found {
            None => store.create(&key, "x".into(), None).await,
            Some(found) if (seed >> 33).is_multiple_of(3) => store.delete(&key, found.mod_revision).await,
            Some(found) => store.update(&key, "y".into(), found.mod_revision, None).await,
        };
        match written {
            Ok(_) => {}
            Err(WriteError::Conflict { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Retains hardly any history, so that slow readers fall behind.
async fn compact(store: Store, done: Arc<AtomicBool>) {
    while !done.load(Ordering::Relaxed) {
        let target = store.current_revision().get().saturating_sub(20);
        store.compact(Revision::new(target)).await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Follows a prefix up to the last revision. Returns the copy and the number of restarts.
async fn follow(
    store: Store,
    prefix: &str,
    last: tokio::sync::watch::Receiver<Option<Revision>>,
) -> (Copied, usize) {
    let mut restarts = 0;
    loop {
        let request = RangeRequest {
            prefix,
            ..Default::default()
        };
        let range = store.range(&request).await.unwrap();
        let mut copy: Copied = range
            .items
            .into_iter()
            .map(|item| (item.key, item.mod_revision))
            .collect();
        let caught_up = async {
            let mut feed = store.watch(prefix, range.revision)?.with_progress();
            while last.borrow().is_none_or(|last| feed.position() < last) {
                apply(&mut copy, feed.next().await?);
            }
            Ok::<(), ReadError>(())
        };
        match caught_up.await {
            Ok(()) => return (copy, restarts),
            Err(ReadError::Compacted { .. }) => restarts += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Applies changes, and checks that each follows from the copy.
fn apply(copy: &mut Copied, batch: Batch) {
    for change in batch.changes {
        assert!(change.revision <= batch.revision);
        let previous = change.previous.as_ref().map(|(_, revision)| *revision);
        assert_eq!(copy.get(&change.key).copied(), previous, "{change:?}");
        match change.value {
            Some(_) => copy.insert(change.key.clone(), change.revision),
            None => copy.remove(&change.key),
        };
    }
}

async fn check(store: Store) {
    let done = Arc::new(AtomicBool::new(false));
    let (tell_last, last) = tokio::sync::watch::channel(None);
    let compactor = tokio::spawn(compact(store.clone(), done.clone()));
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            tokio::spawn(follow(
                store.clone(),
                PREFIXES[reader % PREFIXES.len()],
                last.clone(),
            ))
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|seed| tokio::spawn(write(store.clone(), seed + 1)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    compactor.await.unwrap();
    // One more write, so that waiting readers reach the end.
    let end = store.create("/end", "x".into(), None).await.unwrap();
    tell_last.send_replace(Some(end));
    store.create("/after the end", "x".into(), None).await.unwrap();
    for (reader, task) in readers.into_iter().enumerate() {
        let (copy, restarts) = task.await.unwrap();
        let request = RangeRequest {
            prefix: PREFIXES[reader % PREFIXES.len()],
            at: ReadAt::Revision(end),
            ..Default::default()
        };
        let found = store.range(&request).await.unwrap().items;
        let mut expected: Copied = found
            .into_iter()
            .map(|item| (item.key, item.mod_revision))
            .collect();
        let mut copy = copy;
        // The reader may have seen the very last write too.
        copy.remove("/after the end");
        expected.remove("/after the end");
        assert_eq!(copy, expected, "reader {reader} after {restarts} restarts");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_are_never_wrong_in_memory() {
    check(Store::memory(Default::default())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_are_never_wrong_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    check(Store::open(dir.path(), Default::default()).await.unwrap()).await;
}
