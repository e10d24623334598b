//! `kill -9` under load, many times, on one data directory. After each kill every acknowledged write is there as a
//! whole, revisions have grown, and feeds resume without a gap or report that history was compacted.
//!
//! The test spawns itself as the process to be killed. It has a binary of its own: a process that is being spawned
//! briefly holds the file descriptors, and so the locks, of all stores in its parent.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use watchkeeper_storage::{Change, Retention, Revision, Store, StoreOptions};

/// The data directory of the child.
const DIR: &str = "WATCHKEEPER_CRASH_TEST_DIR";
/// The number of kills, for a longer run.
const KILLS: &str = "WATCHKEEPER_CRASH_TEST_KILLS";
const DEFAULT_KILLS: usize = 20;
/// Each writes its own keys, one write at a time.
const WRITERS: usize = 16;
const KEYS_PER_WRITER: u64 = 5;
/// About one page of the file, so that a torn write would show.
const VALUE_BYTES: usize = 3500;

fn options() -> StoreOptions {
    let retention = Retention {
        // Small, so that compaction and row removal are in progress at every kill.
        revisions: 100,
        ..Default::default()
    };
    StoreOptions {
        retention,
        ..Default::default()
    }
}

/// A value that is verifiable: one number, repeated.
fn value(number: u64) -> Bytes {
    number.to_le_bytes().repeat(VALUE_BYTES / 8).into()
}

fn number(value: &Bytes) -> u64 {
    let number = u64::from_le_bytes(*value.first_chunk().unwrap());
    assert_eq!(*value, self::value(number), "half a value");
    number
}

/// The line that the child prints for an acknowledged write: `key revision number`; the number is 0 for a deletion.
#[derive(Debug)]
struct Ack {
    key: String,
    revision: Revision,
    number: u64,
}

impl Ack {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("ack ")?.strip_suffix(" end")?.split(' ');
        Some(Self {
            key: words.next()?.to_owned(),
            revision: Revision::new(words.next()?.parse().ok()?),
            number: words.next()?.parse().ok()?,
        })
    }

    fn print(&self) {
        let line = format!("ack {} {} {} end\n", self.key, self.revision, self.number);
        // One system call, so that a kill never splits a line.
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        std::io::stdout().flush().unwrap();
    }
}

/// Runs in the process that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test below"]
async fn write_until_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = Store::open(dir, options()).await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), writer)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

async fn write(store: Store, writer: usize) {
    for round in 1.. {
        let key = format!("/{writer}/{}", round % KEYS_PER_WRITER);
        let found = store.get(&key, None).await.unwrap();
        let fresh = store.current_revision().get() * 1000 + writer as u64;
        let (revision, number) = match found {
            None => (store.create(&key, value(fresh), None).await.unwrap(), fresh),
            Some(found) if round % 3 == 0 => (store.delete(&key, found.mod_revision).await.unwrap(), 0),
            Some(found) => (
                store
                    .update(&key, value(fresh), found.mod_revision, None)
                    .await
                    .unwrap(),
                fresh,
            ),
        };
        Ack {
            key,
            revision,
            number,
        }
        .print();
    }
}

fn start(dir: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "write_until_killed", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Kills a child after that many acknowledgements, and returns all it printed.
fn run_and_kill(dir: &Path, after: usize) -> Vec<Ack> {
    let (mut child, output) = start(dir);
    let mut acks = Vec::new();
    let mut killed = false;
    for line in output.split(b'\n') {
        acks.extend(Ack::parse(&String::from_utf8_lossy(&line.unwrap())));
        if !killed && acks.len() >= after {
            child.kill().unwrap();
            killed = true;
        }
    }
    child.wait().unwrap();
    assert!(
        killed,
        "the writing process ended by itself after {} writes",
        acks.len()
    );
    acks
}

/// The newest acknowledged write of each key.
type Expected = BTreeMap<String, (Revision, u64)>;

async fn check(dir: &Path, expected: &mut Expected, acks: &[Ack], last: Revision) -> Revision {
    let store = Store::open(dir, options()).await.unwrap();
    let newest = acks.iter().map(|ack| ack.revision).max().unwrap();
    assert!(newest > last, "revisions go on growing");
    assert!(
        store.current_revision() >= newest,
        "every acknowledged revision is there"
    );
    for ack in acks {
        expected.insert(ack.key.clone(), (ack.revision, ack.number));
    }
    check_state(&store, expected).await;
    check_feed(&store, acks).await;
    let current = store.current_revision();
    store.close().await;
    current
}

/// Checks that each key has its newest acknowledged write, or the one in flight.
async fn check_state(store: &Store, expected: &mut Expected) {
    let found = store.range(&Default::default()).await.unwrap().items;
    let found: BTreeMap<_, _> = found.iter().map(|item| (item.key.to_string(), item)).collect();
    for key in found.keys() {
        expected.entry(key.clone()).or_insert((Revision::ZERO, 0));
    }
    for (key, (revision, number)) in expected.iter_mut() {
        match found.get(key) {
            Some(item) if item.mod_revision == *revision => {
                assert_eq!(self::number(&item.value.bytes()), *number)
            }
            Some(item) => {
                assert!(
                    item.mod_revision > *revision,
                    "{key} went back to {}",
                    item.mod_revision
                );
                (*revision, *number) = (item.mod_revision, self::number(&item.value.bytes()));
            }
            None if *number == 0 => {}
            None => {
                let deleted = last_change(store, key).filter(|change| change.value.is_none());
                assert!(
                    deleted.is_some_and(|change| change.revision > *revision),
                    "{key} was lost"
                );
                *number = 0;
            }
        }
    }
}

fn last_change(store: &Store, key: &str) -> Option<Arc<Change>> {
    let mut feed = store.watch(key, store.compacted_revision()).unwrap();
    let changes = feed.read().unwrap().changes;
    changes.into_iter().rfind(|change| &*change.key == key)
}

/// Checks that a feed from any revision is gap-free and has every acknowledged write, or reports compaction.
async fn check_feed(store: &Store, acks: &[Ack]) {
    let acknowledged: BTreeMap<_, _> = acks.iter().map(|ack| (ack.revision, ack)).collect();
    for after in [
        Revision::ZERO,
        acks[0].revision,
        acks[acks.len() / 2].revision,
        store.compacted_revision(),
    ] {
        let mut feed = match store.watch("", after) {
            Ok(feed) => feed,
            Err(error) => {
                assert!(
                    error.is_compacted() && after < store.compacted_revision(),
                    "{error}"
                );
                continue;
            }
        };
        let mut expected = after.get().max(1);
        while feed.position() < store.current_revision() {
            for change in feed.read().unwrap().changes {
                expected += 1;
                assert_eq!(change.revision.get(), expected, "a gap");
                let number = change
                    .value
                    .as_ref()
                    .map_or(0, |value| self::number(&value.bytes()));
                if let Some(ack) = acknowledged.get(&change.revision) {
                    assert_eq!((&*change.key, number), (&*ack.key, ack.number));
                }
            }
        }
        assert_eq!(expected, store.current_revision().get());
    }
}

#[tokio::test]
async fn acknowledged_writes_survive_kill_9() {
    let kills = std::env::var(KILLS).map_or(DEFAULT_KILLS, |kills| kills.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Expected::new();
    let mut last = Revision::FIRST;
    for kill in 0..kills {
        // From the first write up to well into compaction.
        let acks = run_and_kill(dir.path(), 1 + kill * 37 % 400);
        last = check(dir.path(), &mut expected, &acks, last).await;
    }
}
