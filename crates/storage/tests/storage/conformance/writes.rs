//! Compare-and-swap.

use bytes::Bytes;
use watchkeeper_storage::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Revision, Store, WriteError};

use crate::conformance::{conflict, create, delete, show_item, update};

pub(crate) async fn create_takes_the_next_revision(store: Store) {
    assert_eq!(store.current_revision(), Revision::FIRST);
    assert_eq!(create(&store, "/a", "x").await, Revision::new(2));
    assert_eq!(create(&store, "/b", "x").await, Revision::new(3));
    assert_eq!(store.current_revision(), Revision::new(3));
    let found = store.get("/a", None).await.unwrap().unwrap();
    assert_eq!(show_item(&found), "/a = x @ 2, created 2");
}

pub(crate) async fn create_refuses_an_existing_key(store: Store) {
    create(&store, "/a", "x").await;
    let lost = conflict(store.create("/a", "y".into(), None).await);
    assert_eq!(lost.as_deref(), Some("/a = x @ 2, created 2"));
    assert_eq!(
        store.current_revision(),
        Revision::new(2),
        "a conflict takes no revision"
    );
}

pub(crate) async fn update_refuses_a_stale_revision(store: Store) {
    let first = create(&store, "/a", "x").await;
    let second = update(&store, "/a", "y", first).await;
    let lost = conflict(store.update("/a", "z".into(), first, None).await);
    assert_eq!(lost.as_deref(), Some("/a = y @ 3, created 2"));
    update(&store, "/a", "z", second).await;
}

pub(crate) async fn update_refuses_a_missing_key(store: Store) {
    assert_eq!(
        conflict(store.update("/a", "z".into(), Revision::new(1), None).await),
        None
    );
    assert_eq!(
        conflict(store.update("/a", "z".into(), Revision::ZERO, None).await),
        None
    );
}

pub(crate) async fn delete_refuses_a_stale_revision(store: Store) {
    let first = create(&store, "/a", "x").await;
    let second = update(&store, "/a", "y", first).await;
    let lost = conflict(store.delete("/a", first).await);
    assert_eq!(lost.as_deref(), Some("/a = y @ 3, created 2"));
    assert_eq!(delete(&store, "/a", second).await, Revision::new(4));
    assert_eq!(store.get("/a", None).await.unwrap(), None);
}

pub(crate) async fn delete_of_a_missing_key_is_a_conflict(store: Store) {
    let created = create(&store, "/a", "x").await;
    delete(&store, "/a", created).await;
    assert_eq!(conflict(store.delete("/a", created).await), None);
    assert_eq!(conflict(store.delete("/never", created).await), None);
}

pub(crate) async fn recreated_keys_have_a_new_create_revision(store: Store) {
    let created = create(&store, "/a", "x").await;
    delete(&store, "/a", created).await;
    create(&store, "/a", "y").await;
    let found = store.get("/a", None).await.unwrap().unwrap();
    assert_eq!(show_item(&found), "/a = y @ 4, created 4");
}

pub(crate) async fn one_of_many_concurrent_updates_wins(store: Store) {
    let created = create(&store, "/a", "x").await;
    let writers: Vec<_> = (0..64)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .update("/a", Bytes::from(number.to_string()), created, None)
                    .await
            })
        })
        .collect();
    let mut won = Vec::new();
    for writer in writers {
        match writer.await.unwrap() {
            Ok(revision) => won.push(revision),
            Err(error) => assert!(error.is_conflict(), "{error}"),
        }
    }
    assert_eq!(won, [Revision::new(3)]);
    assert_eq!(store.current_revision(), Revision::new(3));
}

pub(crate) async fn large_values_are_refused(store: Store) {
    let size = MAX_VALUE_BYTES + 1;
    let error = store.create("/a", vec![0; size].into(), None).await.unwrap_err();
    assert!(
        matches!(error, WriteError::ValueTooLarge { size: found, limit: MAX_VALUE_BYTES } if found == size)
    );
    let value = Bytes::from(vec![7; MAX_VALUE_BYTES]);
    store.create("/a", value.clone(), None).await.unwrap();
    assert_eq!(store.get("/a", None).await.unwrap().unwrap().value.bytes(), value);
}

pub(crate) async fn bad_keys_are_refused(store: Store) {
    for key in [String::new(), "k".repeat(MAX_KEY_BYTES + 1)] {
        let error = store.create(&key, "x".into(), None).await.unwrap_err();
        assert!(matches!(error, WriteError::KeyLength { .. }), "{error}");
    }
    create(&store, &"k".repeat(MAX_KEY_BYTES), "x").await;
}

pub(crate) async fn values_are_shared_not_copied(store: Store) {
    let value = Bytes::from(vec![7; 4096]);
    store.create("/a", value.clone(), None).await.unwrap();
    let found = store.get("/a", None).await.unwrap().unwrap();
    let change = store.watch("", Revision::ZERO).unwrap().next().await.unwrap();
    assert_eq!(found.value.bytes().as_ptr(), value.as_ptr());
    assert_eq!(
        change.changes[0].value.as_ref().unwrap().bytes().as_ptr(),
        value.as_ptr()
    );
}
