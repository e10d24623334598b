//! A failing disk: writers get errors, no partial commit is visible, and writes succeed again when the disk recovers.
//! After a failed fsync they do not, because the content of the disk is unknown.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;
use redb::backends::FileBackend;

use super::restore::restore_with;
use super::{OpenFile, open_with};
use crate::clock::Clock;
use crate::transform::Values;
use crate::{BackupFile, RestoreOptions, Revision, Store, StoreOptions, WriteError};

/// A fault, and the number of calls of that kind before it.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A write fails in the middle of a commit.
    Full { after: usize },
    /// An fsync fails.
    Sync { after: usize },
    /// An fsync succeeds but reports an error.
    Ambiguous { after: usize },
}

type Faults = Arc<Mutex<Option<Fault>>>;

#[derive(Debug)]
struct FaultyDisk {
    disk: FileBackend,
    fault: Faults,
}

impl FaultyDisk {
    /// Counts down, and fails at zero.
    fn pass(&self, count: impl FnOnce(&mut Fault) -> Option<&mut usize>) -> io::Result<()> {
        match self.fault.lock().as_mut().and_then(count) {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(after) => {
                *after -= 1;
                Ok(())
            }
        }
    }
}

impl StorageBackend for FaultyDisk {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pass(|fault| match fault {
            Fault::Sync { after } => Some(after),
            _ => None,
        })?;
        self.disk.sync_data()?;
        self.pass(|fault| match fault {
            Fault::Ambiguous { after } => Some(after),
            _ => None,
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pass(|fault| match fault {
            Fault::Full { after } => Some(after),
            _ => None,
        })?;
        self.disk.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.disk.close()
    }
}

fn faulty(faults: &Faults) -> OpenFile {
    let fault = faults.clone();
    Box::new(move |file| {
        let disk = FileBackend::new(file)?;
        let fault = fault.clone();
        Ok(Box::new(FaultyDisk { disk, fault }))
    })
}

fn open(path: &Path, faults: &Faults) -> Store {
    let clock = Clock::start();
    let open_file = faulty(faults);
    let (engine, recovered) = open_with(path, clock.now(), Values::Plain, None, open_file).unwrap();
    Store::start(recovered, clock, Box::new(engine), StoreOptions::default())
}

async fn keys(store: &Store) -> Vec<String> {
    let range = store.range(&Default::default()).await.unwrap();
    range.items.iter().map(|item| item.key.to_string()).collect()
}

async fn create(store: &Store, key: &str) -> Result<Revision, WriteError> {
    store.create(key, vec![b'x'; 3000].into(), None).await
}

/// Writes until the fault has occurred, and a little longer. Returns the keys whose writers got an error.
async fn write_into(fault: Fault, store: &Store, faults: &Faults) -> Vec<String> {
    create(store, "/a").await.unwrap();
    let before = create(store, "/b").await.unwrap();
    *faults.lock() = Some(fault);
    let mut failed = Vec::new();
    for number in 0..20 {
        let key = format!("/failed/{number}");
        match create(store, &key).await {
            // The fault comes in a later commit.
            Ok(_) => assert!(keys(store).await.contains(&key)),
            Err(WriteError::NoSpace) => {
                assert!(matches!(fault, Fault::Full { .. }));
                failed.push(key);
            }
            Err(WriteError::Engine(error)) => {
                assert!(!error.to_string().contains("panic"), "{error}");
                failed.push(key);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(!failed.is_empty(), "{fault:?} never came");
    let visible = keys(store).await;
    assert!(
        failed.iter().all(|key| !visible.contains(key)),
        "{fault:?} left {visible:?}"
    );
    let current = store.current_revision();
    assert_eq!(current.get(), before.get() + 20 - failed.len() as u64);
    *faults.lock() = None;
    failed
}

#[tokio::test]
async fn a_full_disk_fails_writers_and_nothing_else() {
    for after in 0..12 {
        let fault = Fault::Full { after };
        let dir = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let store = open(dir.path(), &faults);
        write_into(fault, &store, &faults).await;
        assert!(store.is_writable());

        let (mut expected, current) = (keys(&store).await, store.current_revision());
        assert_eq!(create(&store, "/c").await.unwrap(), current.next(), "{fault:?}");
        store.close().await;

        let again = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
        expected.push("/c".to_owned());
        expected.sort_unstable();
        assert_eq!(keys(&again).await, expected, "{fault:?}");
        assert_eq!(again.current_revision(), current.next());
        again.close().await;
    }
}

/// The disk works again, but which part of the failed write it has is unknown, so nothing may build on it.
#[tokio::test]
async fn no_write_succeeds_after_a_failed_sync_until_the_store_is_reopened() {
    for fault in (0..3).flat_map(|after| [Fault::Sync { after }, Fault::Ambiguous { after }]) {
        let dir = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let store = open(dir.path(), &faults);
        let failed = write_into(fault, &store, &faults).await;
        let (acknowledged, current) = (keys(&store).await, store.current_revision());

        assert!(!store.is_writable());
        let refused = create(&store, "/c").await.unwrap_err();
        let WriteError::Engine(why) = refused else {
            panic!("{refused}");
        };
        assert!(why.to_string().contains("until the store is reopened"), "{why}");
        assert_eq!(
            (keys(&store).await, store.current_revision()),
            (acknowledged.clone(), current)
        );
        store.close().await;

        let again = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
        let found = keys(&again).await;
        assert!(
            acknowledged.iter().all(|key| found.contains(key)),
            "{fault:?} lost some"
        );
        // Only the first failed commit may have reached the disk.
        let more: Vec<_> = found.iter().filter(|key| !acknowledged.contains(key)).collect();
        assert!(more.is_empty() || more == [&failed[0]], "{fault:?} made {more:?}");
        assert!(again.current_revision() >= current);
        assert!(create(&again, "/c").await.unwrap() > current);
        again.close().await;
    }
}

#[tokio::test]
async fn all_writers_of_a_failed_commit_get_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let store = open(dir.path(), &faults);
    *faults.lock() = Some(Fault::Full { after: 0 });
    let writers: Vec<_> = (0..100)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { create(&store, &format!("/{number}")).await })
        })
        .collect();
    for writer in writers {
        assert!(matches!(writer.await.unwrap(), Err(WriteError::NoSpace)));
    }
    assert_eq!(store.current_revision(), Revision::FIRST);
    assert_eq!(
        store.watch("", Revision::ZERO).unwrap().read().unwrap().changes,
        []
    );
    store.close().await;
}

/// A failed restore leaves no data file, and the same restore succeeds on a working disk.
#[tokio::test]
async fn a_restore_onto_a_failing_disk_leaves_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::memory(StoreOptions::default());
    for number in 0..50 {
        create(&store, &format!("/{number}")).await.unwrap();
    }
    let backup = dir.path().join("backup");
    let mut file = BackupFile::create(&backup).unwrap();
    store
        .backup()
        .for_each(|piece| file.write(&piece.unwrap()).unwrap());
    let summary = file.finish().unwrap();
    let to = dir.path().join("restored");
    let options = RestoreOptions::default();
    for fault in (0..6).flat_map(|after| [Fault::Full { after }, Fault::Sync { after }]) {
        let faults: Faults = Arc::new(Mutex::new(Some(fault)));
        let result = restore_with(&backup, &to, &options, &faulty(&faults));
        let came = matches!(
            *faults.lock(),
            Some(Fault::Full { after: 0 } | Fault::Sync { after: 0 })
        );
        match result {
            Err(_) => assert!(!to.join("store.redb").exists(), "{fault:?}"),
            // The restore makes fewer calls of that kind.
            Ok(_) => {
                assert!(!came, "{fault:?}");
                std::fs::remove_dir_all(&to).unwrap();
            }
        }
    }
    assert_eq!(
        restore_with(&backup, &to, &options, &faulty(&Faults::default())).unwrap(),
        summary
    );
    let restored = Store::open(&to, StoreOptions::default()).await.unwrap();
    assert_eq!(keys(&restored).await, keys(&store).await);
    restored.close().await;
}
