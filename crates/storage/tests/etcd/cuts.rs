//! Connections are cut at random moments while several stores write: every acknowledged write is there, every feed has
//! every change once and in order, and no failed write was applied.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use watchkeeper_storage::{Change, RangeRequest, Revision, Store, WriteError};

use crate::etcd::Etcd;
use crate::open;
use crate::proxy::Proxy;

/// Writers per store, each with its own keys.
const WRITERS: usize = 6;
const KEYS: usize = 3;
/// The least number of cuts of all connections, and of acknowledged writes; the pause between two cuts is
/// `PAUSE_MILLIS`.
const CUTS: usize = 40;
/// If so many cuts let no write through, something is broken, not slow.
const MAX_CUTS: usize = 100 * CUTS;
const PAUSE_MILLIS: std::ops::Range<u64> = 5..60;

/// The outcomes that a writer observed.
#[derive(Debug, Default)]
struct Log {
    /// By revision: key and value, `None` for a deletion.
    acknowledged: BTreeMap<Revision, (String, Option<Bytes>)>,
    /// Values whose writer got an error.
    failed: Vec<Bytes>,
    unknown: usize,
}

/// Shared by all writers.
#[derive(Clone, Default)]
struct Progress {
    acknowledged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

async fn write(store: Store, writer: String, progress: Progress) -> Log {
    let mut log = Log::default();
    for number in 0.. {
        if progress.stop.load(Ordering::SeqCst) {
            break;
        }
        let key = format!("/{writer}/{}", number % KEYS);
        let Ok(found) = store.get(&key, None).await else {
            continue;
        };
        let value = Bytes::from(format!("{writer} {number}"));
        let (written, value) = match found {
            None => (store.create(&key, value.clone(), None).await, Some(value)),
            Some(found) if number % 5 == 0 => (store.delete(&key, found.mod_revision).await, None),
            Some(found) => (
                store.update(&key, value.clone(), found.mod_revision, None).await,
                Some(value),
            ),
        };
        match written {
            Ok(revision) => {
                let before = log.acknowledged.insert(revision, (key, value));
                assert!(before.is_none(), "one revision for two writes");
                progress.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Err(WriteError::Unknown(_)) => log.unknown += 1,
            // An earlier write of this writer with unknown outcome arrived late, or nothing was sent.
            Err(WriteError::Conflict { .. } | WriteError::Engine(_)) => log.failed.extend(value),
            Err(error) => panic!("{error}"),
        }
    }
    log
}

/// Collects all changes up to a revision.
async fn follow(store: Store, mut end: watch::Receiver<Option<Revision>>) -> Vec<Arc<Change>> {
    let mut feed = store.watch("", Revision::FIRST).unwrap();
    let mut seen = Vec::new();
    loop {
        if end
            .borrow_and_update()
            .is_some_and(|last| feed.position() >= last)
        {
            return seen;
        }
        tokio::select! {
            batch = feed.next() => seen.extend(batch.unwrap().changes),
            _ = end.changed() => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_invented_when_connections_are_cut() {
    let Some(etcd) = Etcd::start() else { return };
    let proxies = [Proxy::start(etcd.port()).await, Proxy::start(etcd.port()).await];
    let progress = Progress::default();
    let (end, ends) = watch::channel(None);
    let (mut stores, mut writers, mut followers) = (Vec::new(), Vec::new(), Vec::new());
    for (number, proxy) in proxies.iter().enumerate() {
        let store = open(proxy.url()).await;
        followers.push(tokio::spawn(follow(store.clone(), ends.clone())));
        for writer in 0..WRITERS {
            let writer = write(store.clone(), format!("{number}-{writer}"), progress.clone());
            writers.push(tokio::spawn(writer));
        }
        stores.push(store);
    }
    for cut in 0..MAX_CUTS {
        if cut >= CUTS && progress.acknowledged.load(Ordering::SeqCst) > CUTS {
            break;
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MILLIS))).await;
        proxies[cut % 2].cut();
    }
    progress.stop.store(true, Ordering::SeqCst);
    let mut log = Log::default();
    for writer in writers {
        let Log {
            acknowledged,
            failed,
            unknown,
        } = writer.await.unwrap();
        log.acknowledged.extend(acknowledged);
        log.failed.extend(failed);
        log.unknown += unknown;
    }
    assert!(log.acknowledged.len() > CUTS, "{} writes", log.acknowledged.len());

    let last = stores[0].create("/last", "x".into(), None).await.unwrap();
    end.send(Some(last)).unwrap();
    let mut seen = Vec::new();
    for follower in followers {
        seen.push(follower.await.unwrap());
    }
    // A new store reads everything from etcd without cuts.
    let truth = open(etcd.url()).await;
    let mut feed = truth.watch("", Revision::FIRST).unwrap();
    let mut history = Vec::new();
    while feed.position() < last {
        history.extend(feed.read().unwrap().changes);
    }
    for seen in &seen {
        assert_eq!(seen.len(), history.len());
        assert!(
            seen.iter().eq(history.iter()),
            "a feed differs from etcd's history"
        );
    }
    let happened: HashMap<Revision, &Arc<Change>> =
        history.iter().map(|change| (change.revision, change)).collect();
    for (revision, (key, value)) in &log.acknowledged {
        let change = happened[revision];
        let found = change.value.as_ref().map(watchkeeper_storage::Value::bytes);
        assert_eq!((&*change.key, &found), (key.as_str(), value));
    }
    for value in &log.failed {
        assert!(
            !history
                .iter()
                .any(|change| change.value == Some(value.clone().into())),
            "{value:?} was called a failure"
        );
    }
    let state = truth.range(&RangeRequest::default()).await.unwrap();
    for store in &stores {
        assert_eq!(
            store.range(&RangeRequest::default()).await.unwrap().items,
            state.items
        );
    }
}
