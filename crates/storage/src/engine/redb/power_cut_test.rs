//! A power cut at any moment: synced data survives, and any part of the rest may.
//!
//! A workload runs once on a disk that records every call. For each of many moments, the test then builds the disk as
//! it may look after a cut, with a random choice of the unsynced sectors, and opens it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;
use redb::backends::FileBackend;

use super::{OpenFile, open_with};
use crate::clock::Clock;
use crate::transform::Values;
use crate::{RangeRequest, ReadAt, Retention, Revision, Store, StoreOptions};

/// The unit of disk writes.
const SECTOR: usize = 512;
/// The number of moments tested.
const CUTS: usize = 120;

#[derive(Debug)]
enum Call {
    Write {
        offset: usize,
        data: Vec<u8>,
    },
    Resize(usize),
    Sync,
    /// Not a call: the store has acknowledged this revision, and these are its keys.
    Acknowledged(Revision, Keys),
}

/// The keys of a store, and the revisions of their values.
type Keys = BTreeMap<String, Revision>;
type Journal = Arc<Mutex<Vec<Call>>>;

#[derive(Debug)]
struct RecordingDisk {
    disk: FileBackend,
    journal: Journal,
}

impl StorageBackend for RecordingDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.journal.lock().push(Call::Resize(len as usize));
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()?;
        self.journal.lock().push(Call::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.journal.lock().push(Call::Write {
            offset: offset as usize,
            data: data.to_vec(),
        });
        self.disk.write(offset, data)
    }
}

fn open(path: &Path, journal: &Journal) -> Store {
    let clock = Clock::start();
    let journal = journal.clone();
    let open_file: OpenFile = Box::new(move |file| {
        let disk = FileBackend::new(file)?;
        let journal = journal.clone();
        Ok(Box::new(RecordingDisk { disk, journal }))
    });
    let (engine, recovered) = open_with(path, clock.now(), Values::Plain, None, open_file).unwrap();
    let retention = Retention {
        revisions: 30,
        ..Default::default()
    };
    let options = StoreOptions {
        retention,
        ..Default::default()
    };
    Store::start(recovered, clock, Box::new(engine), options)
}

async fn keys(store: &Store, at: Revision) -> Keys {
    let request = RangeRequest {
        at: ReadAt::Revision(at),
        ..Default::default()
    };
    let items = store.range(&request).await.unwrap().items;
    items
        .into_iter()
        .map(|item| (item.key.to_string(), item.mod_revision))
        .collect()
}

/// Commits of many sizes, with compactions in between.
async fn work(store: &Store, journal: &Journal) {
    for round in 0..40usize {
        let writers: Vec<_> = (0..1 + round % 5)
            .map(|writer| {
                let (store, key) = (store.clone(), format!("/{writer}/{}", round % 7));
                tokio::spawn(async move { write(&store, &key, 700 * (round % 9)).await })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let revision = store.current_revision();
        let acknowledged = Call::Acknowledged(revision, keys(store, revision).await);
        journal.lock().push(acknowledged);
    }
}

async fn write(store: &Store, key: &str, size: usize) {
    let value = vec![b'x'; size].into();
    match store.get(key, None).await.unwrap() {
        None => store.create(key, value, None).await.unwrap(),
        Some(found) if size == 0 => store.delete(key, found.mod_revision).await.unwrap(),
        Some(found) => store.update(key, value, found.mod_revision, None).await.unwrap(),
    };
}

/// A deterministic random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The file after a cut, and what was acknowledged before it.
fn cut<'a>(start: &[u8], calls: &'a [Call], dice: &mut Dice) -> (Vec<u8>, Option<(Revision, &'a Keys)>) {
    let synced = calls
        .iter()
        .rposition(|call| matches!(call, Call::Sync))
        .unwrap_or(0);
    let mut file = start.to_vec();
    let mut acknowledged = None;
    for (index, call) in calls.iter().enumerate() {
        match call {
            Call::Resize(len) => file.resize(*len, 0),
            Call::Sync => {}
            Call::Acknowledged(revision, keys) => acknowledged = Some((*revision, keys)),
            Call::Write { offset, data } => {
                for (sector, bytes) in data.chunks(SECTOR).enumerate() {
                    if index < synced || dice.roll(2) == 0 {
                        let at = offset + sector * SECTOR;
                        file[at..at + bytes.len()].copy_from_slice(bytes);
                    }
                }
            }
        }
    }
    (file, acknowledged)
}

#[tokio::test]
async fn acknowledged_writes_survive_a_power_cut() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::default();
    // Opened once, so that the file exists before the disk starts recording.
    Store::open(dir.path(), StoreOptions::default())
        .await
        .unwrap()
        .close()
        .await;
    let start = std::fs::read(dir.path().join("store.redb")).unwrap();
    let store = open(dir.path(), &journal);
    work(&store, &journal).await;
    store.close().await;

    let calls = std::mem::take(&mut *journal.lock());
    let mut dice = Dice(7);
    for _ in 0..CUTS {
        let moment = dice.roll(calls.len() as u64 + 1) as usize;
        let (file, acknowledged) = cut(&start, &calls[..moment], &mut dice);
        let after = tempfile::tempdir().unwrap();
        std::fs::write(after.path().join("store.redb"), file).unwrap();
        let store = Store::open(after.path(), StoreOptions::default()).await;
        let store = store.unwrap_or_else(|error| panic!("cut after {moment} calls: {error}"));
        let Some((revision, expected)) = acknowledged else {
            continue;
        };
        assert!(store.current_revision() >= revision, "cut after {moment} calls");
        // A commit in progress may have succeeded, and may have compacted the acknowledged revision.
        if store.compacted_revision() <= revision {
            assert_eq!(
                keys(&store, revision).await,
                *expected,
                "cut after {moment} calls"
            );
        }
        store.close().await;
    }
}
