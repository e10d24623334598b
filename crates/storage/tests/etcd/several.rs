//! Several stores over one etcd.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use watchkeeper_storage::{
    EtcdOptions, Feed, RangeRequest, ReadAt, ReadError, Revision, Store, StoreOptions, WriteError,
};

use crate::etcd::Etcd;
use crate::proxy::Proxy;
use crate::{open, options};

/// A generous timeout.
const PATIENCE: Duration = Duration::from_secs(20);

/// `5 /a = x`, `6 /a gone`
async fn next(feed: &mut Feed) -> Vec<String> {
    let batch = timeout(PATIENCE, feed.next()).await.unwrap().unwrap();
    let changes = batch.changes.iter();
    changes
        .map(|change| match &change.value {
            Some(value) => format!(
                "{} {} = {}",
                change.revision,
                change.key,
                value.bytes().escape_ascii()
            ),
            None => format!("{} {} gone", change.revision, change.key),
        })
        .collect()
}

async fn keys(store: &Store) -> Vec<String> {
    let range = store.range(&RangeRequest::default()).await.unwrap();
    range.items.iter().map(|item| item.key.to_string()).collect()
}

/// The changes of a feed up to a revision.
async fn seen_until(feed: &mut Feed, last: Revision) -> Vec<(Revision, String)> {
    let mut seen = Vec::new();
    while feed.position() < last {
        let batch = timeout(PATIENCE, feed.next()).await.unwrap().unwrap();
        let changes = batch.changes.iter();
        seen.extend(changes.map(|change| (change.revision, change.key.to_string())));
    }
    seen
}

#[tokio::test]
async fn a_write_is_visible_to_all_stores_at_the_same_revision() {
    let Some(etcd) = Etcd::start() else { return };
    let (one, other) = (open(etcd.url()).await, open(etcd.url()).await);
    assert!(one.is_shared());
    let mut feed = other.watch("/a", other.current_revision()).unwrap();
    let created = one.create("/a", "x".into(), None).await.unwrap();
    assert_eq!(next(&mut feed).await, ["2 /a = x"]);
    let updated = other.update("/a", "y".into(), created, None).await.unwrap();
    assert_eq!(next(&mut feed).await, ["3 /a = y"]);
    one.delete("/a", updated).await.unwrap();
    assert_eq!(next(&mut feed).await, ["4 /a gone"]);
}

#[tokio::test]
async fn an_acknowledged_write_is_read_by_all_stores_at_once() {
    let Some(etcd) = Etcd::start() else { return };
    let (one, other) = (open(etcd.url()).await, open(etcd.url()).await);
    for number in 0..200 {
        let (writer, reader) = if number % 2 == 0 {
            (&one, &other)
        } else {
            (&other, &one)
        };
        let key = format!("/{number}");
        let written = writer.create(&key, "x".into(), None).await.unwrap();
        let found = reader.get(&key, None).await.unwrap().unwrap();
        assert_eq!(found.mod_revision, written);
        // The writer itself reads it without asking etcd again.
        assert!(
            writer
                .get(&key, Some(writer.current_revision()))
                .await
                .unwrap()
                .is_some()
        );
    }
}

#[tokio::test]
async fn one_of_many_concurrent_writers_wins() {
    let Some(etcd) = Etcd::start() else { return };
    let stores = [open(etcd.url()).await, open(etcd.url()).await];
    let mut revision = stores[0].create("/a", "0".into(), None).await.unwrap();
    for round in 0..20 {
        let writers = (0..8).map(|writer| {
            let (store, value) = (stores[writer % 2].clone(), format!("{round} {writer}"));
            tokio::spawn(async move { store.update("/a", value.into(), revision, None).await })
        });
        let mut won = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            match writer.await.unwrap() {
                Ok(revision) => won.push(revision),
                Err(WriteError::Conflict { current }) => {
                    assert!(current.unwrap().mod_revision > revision);
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won.len(), 1);
        revision = won[0];
    }
}

/// The store of another user of the same etcd.
async fn open_of_others(url: String) -> Store {
    let options = EtcdOptions {
        prefix: "/registry-of-others/".to_owned(),
        ..options(url)
    };
    Store::etcd(options, StoreOptions::default()).await.unwrap()
}

#[tokio::test]
async fn foreign_keys_in_the_same_etcd_only_cause_revision_gaps() {
    let Some(etcd) = Etcd::start() else { return };
    let ours = open(etcd.url()).await;
    let theirs = open_of_others(etcd.url()).await;
    let mut feed = ours.watch("", ours.current_revision()).unwrap();
    ours.create("/a", "x".into(), None).await.unwrap();
    for number in 0..10 {
        theirs
            .create(&format!("/{number}"), "x".into(), None)
            .await
            .unwrap();
    }
    // A consistent read advances past them; the fence it may write is not a change of the store.
    assert_eq!(keys(&ours).await, ["/a"]);
    assert!(ours.current_revision() >= Revision::new(12));
    let second = ours.create("/b", "x".into(), None).await.unwrap();
    let expected = ["2 /a = x".to_owned(), format!("{} /b = x", second.get())];
    assert_eq!(next(&mut feed).await, expected);
    assert_eq!(
        ours.get("/b", Some(Revision::new(second.get() - 1)))
            .await
            .unwrap(),
        None
    );
    assert_eq!(keys(&ours).await, ["/a", "/b"]);
    assert_eq!(keys(&theirs).await.len(), 10);
}

#[tokio::test]
async fn a_consistent_read_writes_nothing_if_etcd_reports_the_progress_of_a_watch() {
    let Some(etcd) = Etcd::start() else { return };
    let ours = open(etcd.url()).await;
    let theirs = open_of_others(etcd.url()).await;
    let writes = if etcd.reports_progress() { 0 } else { 1 };
    for number in 0..20 {
        let key = format!("/{number}");
        let created = theirs.create(&key, "x".into(), None).await.unwrap();
        assert!(keys(&ours).await.is_empty());
        assert!(ours.current_revision() >= created);
        let updated = theirs.update(&key, "y".into(), created, None).await.unwrap();
        assert_eq!(updated.get() - created.get(), 1 + writes);
    }
}

#[tokio::test]
async fn changes_of_one_revision_stay_together() {
    let Some(etcd) = Etcd::start() else { return };
    let store = open(etcd.url()).await;
    const COUNT: usize = 1500;
    for number in 0..COUNT {
        store
            .create(&format!("/many/{number}"), "x".into(), None)
            .await
            .unwrap();
    }
    let last = store.create("/other", "x".into(), None).await.unwrap();
    let mut feed = store.watch("", last).unwrap();
    etcd.delete_prefix("/registry//many/");
    let batch = timeout(PATIENCE, feed.next()).await.unwrap().unwrap();
    assert_eq!(batch.changes.len(), COUNT);
    assert!(
        batch
            .changes
            .iter()
            .all(|change| change.revision == batch.revision && change.value.is_none())
    );
    assert_eq!(keys(&store).await, ["/other"]);
}

#[tokio::test]
async fn a_reopened_store_has_the_history() {
    let Some(etcd) = Etcd::start() else { return };
    let store = open(etcd.url()).await;
    let first = store.create("/a", "x".into(), None).await.unwrap();
    let second = store.update("/a", "y".into(), first, None).await.unwrap();
    store.update("/a", "z".into(), second, None).await.unwrap();
    store.close().await;

    let again = open(etcd.url()).await;
    let mut feed = again.watch("", first).unwrap();
    assert_eq!(next(&mut feed).await, ["3 /a = y", "4 /a = z"]);
    again.compact(second).await.unwrap();
    again.close().await;

    let again = open(etcd.url()).await;
    assert_eq!(again.compacted_revision(), second);
    assert!(again.watch("", first).unwrap_err().is_compacted());
    let mut feed = again.watch("", second).unwrap();
    assert_eq!(next(&mut feed).await, ["4 /a = z"]);
}

#[tokio::test]
async fn a_watch_overtaken_by_compaction_reports_it_to_its_feeds() {
    let Some(etcd) = Etcd::start() else { return };
    let proxy = Proxy::start(etcd.port()).await;
    let (near, far) = (open(etcd.url()).await, open(proxy.url()).await);
    let before = near.create("/a", "x".into(), None).await.unwrap();
    far.refresh().await.unwrap();
    let mut feed = far.watch("", before).unwrap();
    let quiet = far.watch("/nothing/", before).unwrap();

    proxy.refuse(true);
    proxy.cut();
    let updated = near.update("/a", "y".into(), before, None).await.unwrap();
    near.delete("/a", updated).await.unwrap();
    let last = near.create("/b", "z".into(), None).await.unwrap();
    near.compact(last).await.unwrap();
    proxy.refuse(false);

    assert!(
        timeout(PATIENCE, feed.next())
            .await
            .unwrap()
            .unwrap_err()
            .is_compacted()
    );
    assert_eq!(keys(&far).await, ["/b"]);
    // It is unknown which changes were missed, so a feed without any gets the error as well.
    let mut quiet = quiet;
    assert!(quiet.read().unwrap_err().is_compacted());
    let mut feed = far.watch("", last).unwrap();
    near.create("/c", "x".into(), None).await.unwrap();
    assert_eq!(next(&mut feed).await, [format!("{} /c = x", last.get() + 1)]);
}

/// Replaces the etcd of a store by another one, which has that many keys.
async fn replace_etcd(flags: &[&str], keys: usize) {
    let Some(known) = Etcd::start() else { return };
    let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    let Some(other) = Etcd::start_with(|_| flags) else {
        return;
    };
    let proxy = Proxy::start(known.port()).await;
    let (store, theirs) = (open(proxy.url()).await, open(other.url()).await);
    let last = store.create("/a", "x".into(), None).await.unwrap();
    for number in 0..keys {
        theirs
            .create(&format!("/{number}"), "y".into(), None)
            .await
            .unwrap();
    }
    let mut feed = store.watch("", last).unwrap();
    proxy.redirect(other.port());
    proxy.cut();
    // The first call gets an error; no read is answered from memory as if it were the latest.
    let (read, written) = tokio::join!(store.get("/a", None), store.create("/b", "x".into(), None));
    assert!(read.is_err(), "{read:?}");
    assert!(
        matches!(written, Err(WriteError::Unknown(_) | WriteError::Engine(_))),
        "{written:?}"
    );
    let next = timeout(PATIENCE, feed.next()).await.unwrap();
    assert_eq!(next, Err(ReadError::Closed));
    assert!(!store.is_writable());
    let error = store.create("/c", "x".into(), None).await.unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("restart this server"), "{why}");
}

#[tokio::test]
async fn another_etcd_at_the_same_address_is_detected() {
    replace_etcd(&["--initial-cluster-token=other"], 5).await;
}

#[tokio::test]
async fn an_etcd_restored_to_an_earlier_state_is_detected() {
    replace_etcd(&[], 0).await;
}

#[tokio::test]
async fn a_read_of_the_visible_state_does_not_ask_etcd() {
    let Some(etcd) = Etcd::start() else { return };
    let proxy = Proxy::start(etcd.port()).await;
    let store = open(proxy.url()).await;
    store.create("/a", "x".into(), None).await.unwrap();
    proxy.refuse(true);
    proxy.cut();
    let found = store.get("/a", ReadAt::Visible).await.unwrap();
    assert_eq!(found.unwrap().value.bytes(), "x");
    let request = RangeRequest {
        at: ReadAt::Visible,
        ..Default::default()
    };
    assert_eq!(store.range(&request).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn one_server_compacts_and_all_drop_the_history() {
    let Some(etcd) = Etcd::start() else { return };
    let options = || EtcdOptions {
        compaction_interval: Duration::from_millis(300),
        ..options(etcd.url())
    };
    let one = Store::etcd(options(), StoreOptions::default()).await.unwrap();
    let other = Store::etcd(options(), StoreOptions::default()).await.unwrap();
    let created = one.create("/a", "x".into(), None).await.unwrap();
    one.update("/a", "y".into(), created, None).await.unwrap();
    let forgotten = async {
        while one.compacted_revision() <= created || other.compacted_revision() <= created {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, forgotten).await.unwrap();
    for store in [&one, &other] {
        assert!(store.get("/a", Some(created)).await.unwrap_err().is_compacted());
        assert!(store.watch("", created).unwrap_err().is_compacted());
        assert_eq!(store.get("/a", None).await.unwrap().unwrap().value.bytes(), "y");
    }
    // A third store that opens now cannot have history that etcd has compacted.
    let third = open(etcd.url()).await;
    assert!(third.compacted_revision() > created);
}

#[tokio::test]
async fn keys_expire_after_their_ttl() {
    let Some(etcd) = Etcd::start() else { return };
    let (one, other) = (open(etcd.url()).await, open(etcd.url()).await);
    let ttl = Some(Duration::from_secs(1));
    let renewed = one.create("/renewed", "x".into(), ttl).await.unwrap();
    one.create("/a", "x".into(), ttl).await.unwrap();
    one.create("/b", "x".into(), ttl).await.unwrap();
    let last = one.update("/renewed", "y".into(), renewed, None).await.unwrap();
    let mut feed = other.watch("", last).unwrap();
    let mut gone = Vec::new();
    while gone.len() < 2 {
        gone.extend(next(&mut feed).await);
    }
    gone.sort();
    // One revision each.
    assert!(gone[0].starts_with("6 ") && gone[1].starts_with("7 "), "{gone:?}");
    assert_eq!(keys(&one).await, ["/renewed"]);
}

#[tokio::test]
async fn acknowledged_writes_survive_a_killed_etcd() {
    let Some(mut etcd) = Etcd::start() else { return };
    let store = open(etcd.url()).await;
    let mut feed = store.watch("", store.current_revision()).unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        let mut writers = Vec::new();
        for number in 0..40 {
            let (store, key) = (store.clone(), format!("/{round}/{number}"));
            writers.push(tokio::spawn(async move {
                let written = store.create(&key, Bytes::from(key.clone()), None).await;
                (written, key)
            }));
            // Some writes are answered before etcd is killed, some are in flight, and some come afterwards.
            if number == 20 {
                writers.remove(0).await.unwrap().0.unwrap();
                etcd.kill();
            }
        }
        etcd.restart();
        for writer in writers {
            match writer.await.unwrap() {
                (Ok(revision), key) => acknowledged.push((revision, key)),
                (Err(WriteError::Unknown(_)), _) => {}
                (Err(error), key) => panic!("{key}: {error}"),
            }
        }
    }
    let last = store.create("/last", "x".into(), None).await.unwrap();
    let seen = seen_until(&mut feed, last).await;
    assert!(
        acknowledged.len() > 50,
        "{} of 200 were acknowledged",
        acknowledged.len()
    );
    for write in &acknowledged {
        assert!(seen.contains(write), "{write:?} was acknowledged and is gone");
    }
    assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
    let mut found: Vec<_> = seen.into_iter().map(|(_, key)| key).collect();
    found.sort();
    assert_eq!(keys(&open(etcd.url()).await).await, found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_survives_the_loss_of_any_member() {
    let Some(mut members) = Etcd::start_three() else {
        return;
    };
    let servers = EtcdOptions {
        servers: members.iter().map(Etcd::url).collect(),
        ..options(String::new())
    };
    let store = Store::etcd(servers, StoreOptions::default()).await.unwrap();
    let mut feed = store.watch("", store.current_revision()).unwrap();
    let mut acknowledged = Vec::new();
    for (round, member) in members.iter_mut().enumerate() {
        // It may be the connected member, the leader, both or neither.
        member.kill();
        for number in 0..30 {
            let key = format!("/{round}/{number}");
            match store.create(&key, "x".into(), None).await {
                Ok(revision) => acknowledged.push((revision, key)),
                // It was sent to the killed member.
                Err(WriteError::Unknown(_)) => {}
                Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
            }
        }
        member.restart();
    }
    let last = store.create("/last", "x".into(), None).await.unwrap();
    let seen = seen_until(&mut feed, last).await;
    assert!(
        acknowledged.len() > 80,
        "{} of 90 were acknowledged",
        acknowledged.len()
    );
    assert!(acknowledged.iter().all(|write| seen.contains(write)));
    assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
}
