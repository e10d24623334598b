//! Backups: consistent at one revision, verified when written and read, and never overwriting a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use watchkeeper_storage::{
    BackupError, BackupFile, BackupSummary, RestoreOptions, Revision, Store, StoreOptions, TransformError,
    back_up_directory, restore_directory,
};

async fn open(dir: &Path) -> Store {
    Store::open(dir, StoreOptions::default()).await.unwrap()
}

/// A store with updates, deletions, an expiry and many keys.
async fn fill(store: &Store) {
    for number in 0..700u64 {
        let key = format!("/registry/pods/{}", number % 600);
        let value = vec![number as u8; 100 * (number % 40) as usize];
        let written = match store.get(&key, None).await.unwrap() {
            None => store.create(&key, value.into(), None).await,
            Some(found) if number % 7 == 0 => store.delete(&key, found.mod_revision).await,
            Some(found) => store.update(&key, value.into(), found.mod_revision, None).await,
        };
        written.unwrap();
    }
    let day = Duration::from_secs(86_400);
    store
        .create("/registry/events/a", "soon gone".into(), Some(day))
        .await
        .unwrap();
}

type Piece = Result<bytes::Bytes, TransformError>;

fn save(pieces: impl Iterator<Item = Piece>, path: &Path) -> Result<BackupSummary, BackupError> {
    let mut file = BackupFile::create(path)?;
    for piece in pieces {
        file.write(&piece?)?;
    }
    file.finish()
}

struct Places {
    dir: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn restore(&self) -> Result<BackupSummary, BackupError> {
        restore_directory(self.at("backup"), self.at("restored"), &RestoreOptions::default())
    }
}

#[tokio::test]
async fn a_backup_of_a_running_store_is_consistent_at_one_revision() {
    let places = Places::new();
    let store = open(&places.at("data")).await;
    fill(&store).await;
    let expected = store.range(&Default::default()).await.unwrap();
    let mut backup = store.backup();
    let first = backup.next().unwrap();
    // Later writes are not included.
    store
        .create("/registry/pods/later", "x".into(), None)
        .await
        .unwrap();
    store.compact(store.current_revision()).await.unwrap();
    let summary = save(std::iter::once(first).chain(backup), &places.at("backup")).unwrap();
    assert_eq!(summary.revision, expected.revision);
    assert_eq!(summary.keys, expected.items.len() as u64);
    assert_eq!(summary.bytes, fs::metadata(places.at("backup")).unwrap().len());
    store.close().await;

    assert_eq!(places.restore().unwrap(), summary);
    let restored = open(&places.at("restored")).await;
    // Keys, values, and the create and modify revisions.
    assert_eq!(restored.range(&Default::default()).await.unwrap(), expected);
    let old = restored.watch("", Revision::new(summary.revision.get() - 1));
    assert!(old.unwrap_err().is_compacted());
    let mut feed = restored.watch("", summary.revision).unwrap();
    let written = restored.create("/more", "x".into(), None).await.unwrap();
    assert_eq!(written, Revision::new(summary.revision.get() + 1));
    assert_eq!(feed.next().await.unwrap().revision, written);
    restored.close().await;
}

#[tokio::test]
async fn online_and_offline_backups_are_the_same() {
    let places = Places::new();
    let store = open(&places.at("data")).await;
    fill(&store).await;
    let online: Vec<_> = store.backup().map(Result::unwrap).collect();
    let refused = back_up_directory(places.at("data")).unwrap_err().to_string();
    assert!(refused.ends_with("data is in use"), "{refused}");
    store.close().await;
    let offline: Vec<_> = back_up_directory(places.at("data"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(online.concat(), offline.concat());
    assert!(online.len() > 3, "it is sent in pieces");
}

#[tokio::test]
async fn a_restored_key_still_expires() {
    let places = Places::new();
    let store = Store::memory(StoreOptions::default());
    store
        .create("/a", "x".into(), Some(Duration::from_secs(1)))
        .await
        .unwrap();
    save(store.backup(), &places.at("backup")).unwrap();
    places.restore().unwrap();
    let restored = open(&places.at("restored")).await;
    let mut feed = restored.watch("", restored.current_revision()).unwrap();
    let batch = feed.next().await.unwrap();
    assert_eq!(batch.changes[0].value, None);
    restored.close().await;
}

#[tokio::test]
async fn a_bumped_revision_expires_the_versions_that_clients_remember() {
    let places = Places::new();
    let store = Store::memory(StoreOptions::default());
    let created = store.create("/a", "x".into(), None).await.unwrap();
    save(store.backup(), &places.at("backup")).unwrap();
    let lost = store.create("/lost", "x".into(), None).await.unwrap();
    let options = RestoreOptions { bump_revision: 1000 };
    restore_directory(places.at("backup"), places.at("restored"), &options).unwrap();
    let restored = open(&places.at("restored")).await;
    assert_eq!(restored.current_revision().get(), created.get() + 1000);
    assert!(restored.watch("", lost).unwrap_err().is_compacted());
    assert_eq!(
        restored.get("/a", None).await.unwrap().unwrap().mod_revision,
        created
    );
    restored.close().await;
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let places = Places::new();
    let store = open(&places.at("restored")).await;
    store.create("/mine", "x".into(), None).await.unwrap();
    save(store.backup(), &places.at("backup")).unwrap();
    let again = save(store.backup(), &places.at("backup")).unwrap_err();
    assert!(matches!(again, BackupError::Exists { .. }), "{again}");
    let busy = places.restore().unwrap_err().to_string();
    assert!(busy.ends_with("restored is in use"), "{busy}");
    store.close().await;
    let before = fs::read(places.at("restored/store.redb")).unwrap();
    let refused = places.restore().unwrap_err();
    assert!(matches!(refused, BackupError::Exists { .. }), "{refused}");
    assert!(fs::read(places.at("restored/store.redb")).unwrap() == before);
}

/// Every changed byte is detected, and so is a missing end.
#[tokio::test]
async fn damaged_backups_are_refused_and_leave_no_store() {
    let places = Places::new();
    let store = Store::memory(StoreOptions::default());
    for number in 0..20 {
        let value = vec![number; 30];
        store
            .create(&format!("/pods/{number}"), value.into(), None)
            .await
            .unwrap();
    }
    let good = store.backup().map(Result::unwrap).collect::<Vec<_>>().concat();
    let check = |bad: &[u8], what: &str| {
        fs::write(places.at("backup"), bad).unwrap();
        let error = places.restore().unwrap_err();
        let told = error.to_string();
        assert!(told.contains("backup"), "{what}: {told}");
        assert!(
            matches!(error, BackupError::Damaged { .. } | BackupError::Foreign { .. }),
            "{what}: {told}"
        );
        assert!(!places.at("restored").exists(), "{what}");
    };
    for (index, _) in good.iter().enumerate() {
        let mut bad = good.clone();
        bad[index] ^= 1 << (index % 8);
        check(&bad, &format!("byte {index}"));
    }
    for length in 0..good.len() {
        check(&good[..length], &format!("{length} bytes"));
    }
    check(&[&good[..], b"x"].concat(), "more than a backup");
    check(b"%PDF-1.4 is not a backup of anything at all", "foreign");
    fs::write(places.at("backup"), &good).unwrap();
    places.restore().unwrap();
}

#[tokio::test]
async fn an_unfinished_backup_leaves_no_file() {
    let places = Places::new();
    let store = Store::memory(StoreOptions::default());
    let mut file = BackupFile::create(places.at("backup")).unwrap();
    // The server is gone in the middle of it.
    file.write(&store.backup().next().unwrap().unwrap()).unwrap();
    let error = file.finish().unwrap_err().to_string();
    assert!(error.contains("its end is missing"), "{error}");
    assert_eq!(fs::read_dir(places.dir.path()).unwrap().count(), 0);
}

/// Runs the corpus of the fuzz target, on any compiler.
#[test]
fn the_corpus_is_read_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/backup");
    let read = |name: &str| {
        let bytes = fs::read(corpus.join(name)).unwrap();
        BackupSummary::read(&*bytes, Path::new(name)).map(|summary| summary.keys)
    };
    assert_eq!(read("three-keys").unwrap(), 3);
    assert!(
        read("cut-short")
            .unwrap_err()
            .to_string()
            .contains("its end is missing")
    );
}
