//! Files that are truncated, overwritten, bit-flipped, foreign, newer, or in use: opening them fails with a clear
//! error, never with a panic, and never succeeds with data missing.

use std::fs;
use std::path::Path;

use watchkeeper_storage::{OpenError, Range, Revision, Store, StoreOptions, verify_directory};

const FILE: &str = "store.redb";
/// The number of flipped bits, for a longer run.
const SAMPLES: &str = "WATCHKEEPER_DAMAGE_TEST_SAMPLES";
const DEFAULT_SAMPLES: usize = 300;

/// A store with updates, deletions and compacted history, closed.
async fn sample() -> (tempfile::TempDir, Range) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
    for number in 0..200u64 {
        let key = format!("/{}", number % 50);
        let value = vec![number as u8; 100 * (number % 40) as usize];
        let written = match store.get(&key, None).await.unwrap() {
            None => store.create(&key, value.into(), None).await,
            Some(found) if number % 7 == 0 => store.delete(&key, found.mod_revision).await,
            Some(found) => store.update(&key, value.into(), found.mod_revision, None).await,
        };
        written.unwrap();
        if number == 120 {
            store.compact(Revision::new(100)).await.unwrap();
        }
    }
    let everything = store.range(&Default::default()).await.unwrap();
    store.close().await;
    (dir, everything)
}

/// The file of a crashed store, and its content after and before the last write.
async fn crashed() -> (Vec<u8>, [Range; 2]) {
    let (dir, before) = sample().await;
    let store = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
    store.create("/last", "x".into(), None).await.unwrap();
    let after = store.range(&Default::default()).await.unwrap();
    let file = fs::read(dir.path().join(FILE)).unwrap();
    store.close().await;
    (file, [after, before])
}

/// Opens a directory whose data file has these bytes.
async fn open(bytes: &[u8]) -> (tempfile::TempDir, Result<Store, OpenError>) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), bytes).unwrap();
    let opened = Store::open(dir.path(), StoreOptions::default()).await;
    (dir, opened)
}

/// Checks that an error names the file and gives advice.
fn check_error(error: &OpenError, what: &str) {
    let is_expected = matches!(
        error,
        OpenError::Damaged { .. }
            | OpenError::Foreign { .. }
            | OpenError::Newer { .. }
            | OpenError::Io { .. }
    );
    assert!(is_expected, "{what}: {error}");
    assert!(error.to_string().contains(FILE), "{what}: {error}");
    assert!(!error.advice().is_empty());
}

/// Checks that the file is rejected or complete, even after another write and a restart.
async fn check(bytes: &[u8], original: &Range, what: &str) -> bool {
    check_any(bytes, std::slice::from_ref(original), what).await
}

async fn check_any(bytes: &[u8], originals: &[Range], what: &str) -> bool {
    let (dir, opened) = open(bytes).await;
    let store = match opened {
        Err(error) => {
            check_error(&error, what);
            check_error(&verify_directory(dir.path()).unwrap_err(), what);
            let left = fs::read(dir.path().join(FILE)).unwrap();
            assert!(left == bytes, "{what}: the file was changed");
            return true;
        }
        Ok(store) => store,
    };
    let found = store.range(&Default::default()).await.unwrap();
    let original = originals.iter().find(|original| **original == found);
    let Some(original) = original else {
        panic!("{what}: {found:?}");
    };
    let written = store.create("/more", "x".into(), None).await;
    store.close().await;
    if written.is_ok() {
        let again = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
        let mut found = again.range(&Default::default()).await.unwrap();
        found.items.retain(|item| &*item.key != "/more");
        assert_eq!(found.items, original.items, "{what}, after a restart");
        again.close().await;
    }
    false
}

#[tokio::test]
async fn flipped_bits_are_detected_or_harmless() {
    let (dir, original) = sample().await;
    let good = fs::read(dir.path().join(FILE)).unwrap();
    let samples = std::env::var(SAMPLES).map_or(DEFAULT_SAMPLES, |samples| samples.parse().unwrap());
    // Half of them in the header, the rest anywhere in the file.
    let header = (0..320 * 8).step_by(320 * 16 / samples + 1);
    let rest = (320 * 8..good.len() * 8).step_by(good.len() * 16 / samples + 1);
    let mut refused = 0;
    for bit in header.chain(rest) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        refused += usize::from(check(&bad, &original, &format!("bit {bit}")).await);
    }
    assert!(refused > 0);
}

/// Damage to the last commit cannot be distinguished from an incomplete commit after a crash. Only in that case may the
/// store be in the previous state.
#[tokio::test]
async fn flipped_bits_after_a_crash_are_detected_or_harmless() {
    let (good, originals) = crashed().await;
    assert!(!check_any(&good, &originals[..1], "undamaged").await);
    let mut refused = 0;
    for bit in (0..good.len() * 8).step_by(good.len() * 8 / 150) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        refused += usize::from(check_any(&bad, &originals, &format!("bit {bit}")).await);
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn truncated_files_are_refused() {
    let (dir, original) = sample().await;
    let good = fs::read(dir.path().join(FILE)).unwrap();
    for length in [
        0,
        1,
        8,
        9,
        100,
        320,
        4096,
        good.len() / 2,
        good.len() - 4096,
        good.len() - 1,
    ] {
        assert!(check(&good[..length], &original, &format!("{length} bytes")).await);
    }
}

#[tokio::test]
async fn overwritten_pages_are_detected_or_harmless() {
    let (dir, original) = sample().await;
    let good = fs::read(dir.path().join(FILE)).unwrap();
    let mut refused = 0;
    for page in (0..good.len() / 4096).step_by(good.len() / 4096 / 100 + 1) {
        for filler in [0, 0xff, b'x'] {
            let mut bad = good.clone();
            bad[page * 4096..(page + 1) * 4096].fill(filler);
            refused += usize::from(check(&bad, &original, &format!("page {page} of {filler}")).await);
        }
    }
    assert!(refused > 0);
}

async fn refusal(dir: &Path) -> String {
    let error = Store::open(dir, StoreOptions::default()).await.unwrap_err();
    error.to_string().replace(&dir.display().to_string(), "DIR")
}

#[tokio::test]
async fn foreign_files_are_refused() {
    let (dir, opened) = open(b"%PDF-1.4 is not a store").await;
    assert!(matches!(opened.unwrap_err(), OpenError::Foreign { .. }));
    assert_eq!(
        refusal(dir.path()).await,
        "DIR/store.redb is not a watchkeeper store"
    );
    assert_eq!(
        fs::read(dir.path().join(FILE)).unwrap(),
        b"%PDF-1.4 is not a store",
        "left as it was"
    );

    let dir = tempfile::tempdir().unwrap();
    drop(redb::Database::create(dir.path().join(FILE)).unwrap());
    assert_eq!(
        refusal(dir.path()).await,
        "DIR/store.redb is not a watchkeeper store"
    );
}

#[tokio::test]
async fn newer_files_are_refused() {
    let (dir, _) = sample().await;
    let database = redb::Database::open(dir.path().join(FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    let table = redb::TableDefinition::<&str, u64>::new("watchkeeper meta");
    transaction
        .open_table(table)
        .unwrap()
        .insert("format", 3)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(
        refusal(dir.path()).await,
        "DIR/store.redb has format 3, newer than 2"
    );
}

#[tokio::test]
async fn a_store_in_use_is_refused() {
    let (dir, original) = sample().await;
    let store = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
    assert_eq!(refusal(dir.path()).await, "DIR is in use");
    assert_eq!(store.range(&Default::default()).await.unwrap(), original);
    store.close().await;
    Store::open(dir.path(), StoreOptions::default())
        .await
        .unwrap()
        .close()
        .await;
}

#[tokio::test]
async fn a_crash_during_creation_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store.redb.new"), b"half a file").unwrap();
    let store = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
    assert_eq!(store.current_revision(), Revision::FIRST);
    store.close().await;
    assert!(!dir.path().join("store.redb.new").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;

    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    Store::open(&dir, StoreOptions::default())
        .await
        .unwrap()
        .close()
        .await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join(FILE)), 0o600);
}

#[tokio::test]
async fn a_path_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Store::open(file.path(), StoreOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}
