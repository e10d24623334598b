//! Data files of earlier formats, written by the programs of their time, are read and upgraded.

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use watchkeeper_storage::{Revision, Store, StoreOptions, verify_directory};

/// The content of the fixtures: keys and values, in order, at the last revision.
fn written() -> Vec<(String, String)> {
    let mut keys = std::collections::BTreeMap::new();
    for number in 0..60u64 {
        let key = format!("/registry/configmaps/default/{}", number % 20);
        let value = format!("value {number} ").repeat(1 + (number % 40) as usize);
        match keys.contains_key(&key) && number % 7 == 0 {
            true => keys.remove(&key),
            false => keys.insert(key, value),
        };
    }
    keys.insert("/registry/leases/expiring".to_owned(), "short".to_owned());
    keys.into_iter().collect()
}

fn unpack(name: &str) -> tempfile::TempDir {
    let packed = fs::read(format!(
        "{}/tests/fixtures/{name}.redb.gz",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*packed)
        .read_to_end(&mut bytes)
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("store.redb"), bytes).unwrap();
    dir
}

async fn held(store: &Store) -> Vec<(String, String)> {
    let range = store.range(&Default::default()).await.unwrap();
    let items = range.items.iter();
    items
        .map(|item| {
            (
                item.key.to_string(),
                String::from_utf8(item.value.bytes().to_vec()).unwrap(),
            )
        })
        .collect()
}

/// One closed properly, and one left by a crash.
const FIXTURES: [&str; 2] = ["format-1", "format-1-crashed"];

#[tokio::test]
async fn a_store_of_format_1_is_read_and_upgraded() {
    for name in FIXTURES {
        let dir = unpack(name);
        let store = Store::open(dir.path(), StoreOptions::default()).await.unwrap();
        assert_eq!(held(&store).await, written(), "{name}");
        assert_eq!(store.current_revision(), Revision::new(62));
        assert_eq!(store.compacted_revision(), Revision::new(30));
        let old = store
            .get("/registry/configmaps/default/2", Some(Revision::new(30)))
            .await;
        assert!(old.unwrap().unwrap().value.bytes().starts_with(b"value 22 "));
        store
            .create("/more", "x".into(), Some(Duration::from_secs(3600)))
            .await
            .unwrap();
        store.close().await;
        let verified = verify_directory(dir.path()).unwrap();
        assert_eq!(
            (verified.format, verified.revision),
            (2, Revision::new(63)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn inspecting_a_store_does_not_upgrade_it() {
    for name in FIXTURES {
        let dir = unpack(name);
        let before = fs::read(dir.path().join("store.redb")).unwrap();
        let verified = verify_directory(dir.path()).unwrap();
        assert_eq!((verified.format, verified.keys), (1, written().len() as u64));
        assert_eq!(
            watchkeeper_storage::back_up_directory(dir.path())
                .unwrap()
                .count(),
            3
        );
        assert!(
            fs::read(dir.path().join("store.redb")).unwrap() == before,
            "{name}"
        );
    }
}
