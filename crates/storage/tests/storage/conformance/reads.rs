//! Reads of the current and of past revisions.

use watchkeeper_storage::{RangeRequest, ReadAt, ReadError, Revision, Store, WriteError};

use crate::conformance::{create, delete, items, update, value};

fn under(prefix: &str) -> RangeRequest<'_> {
    RangeRequest {
        prefix,
        ..Default::default()
    }
}

pub(crate) async fn get_at_a_past_revision(store: Store) {
    let first = create(&store, "/a", "x").await;
    let second = update(&store, "/a", "y", first).await;
    let third = delete(&store, "/a", second).await;
    let fourth = create(&store, "/a", "z").await;
    for (at, expected) in [
        (Revision::FIRST, None),
        (first, Some("x")),
        (second, Some("y")),
        (third, None),
        (fourth, Some("z")),
    ] {
        assert_eq!(
            value(&store, "/a", Some(at)).await.as_deref(),
            expected,
            "at {at}"
        );
    }
}

pub(crate) async fn get_in_the_future_is_refused(store: Store) {
    let requested = Revision::new(9);
    let current = create(&store, "/a", "x").await;
    let expected = ReadError::Future { requested, current };
    assert_eq!(store.get("/a", Some(requested)).await, Err(expected.clone()));
    let request = RangeRequest {
        at: ReadAt::Revision(requested),
        ..under("/")
    };
    assert_eq!(store.range(&request).await, Err(expected));
}

pub(crate) async fn range_is_ordered_and_stays_within_the_prefix(store: Store) {
    for key in ["/b/2", "/a", "/b/1", "/b", "/c/1", "/b/10"] {
        create(&store, key, "x").await;
    }
    assert_eq!(
        items(&store, &under("/b/")).await,
        [
            "/b/1 = x @ 4, created 4",
            "/b/10 = x @ 7, created 7",
            "/b/2 = x @ 2, created 2"
        ]
    );
    assert_eq!(items(&store, &under("")).await.len(), 6);
    assert_eq!(items(&store, &under("/d")).await.len(), 0);
}

pub(crate) async fn range_pages_show_one_moment(store: Store) {
    for key in ["/a", "/b", "/c", "/d"] {
        create(&store, key, "old").await;
    }
    let first = RangeRequest {
        limit: Some(2),
        ..under("/")
    };
    let page = store.range(&first).await.unwrap();
    assert_eq!(page.revision, Revision::new(5));
    update(&store, "/c", "new", Revision::new(4)).await;
    delete(&store, "/d", Revision::new(5)).await;
    create(&store, "/e", "new").await;
    let second = RangeRequest {
        start_after: Some(&page.items[1].key),
        at: ReadAt::Revision(page.revision),
        ..first
    };
    assert_eq!(
        items(&store, &second).await,
        ["/c = old @ 4, created 4", "/d = old @ 5, created 5"]
    );
}

pub(crate) async fn range_counts_what_remains(store: Store) {
    for number in 0..1000 {
        create(&store, &format!("/a/{number:03}"), "x").await;
    }
    delete(&store, "/a/999", store.current_revision()).await;
    create(&store, "/b", "x").await;
    for (start_after, limit, found, remaining) in [
        (None, None, 999, 0),
        (None, Some(10), 10, 989),
        (Some("/a/499"), Some(10), 10, 489),
        (Some("/a/990"), Some(8), 8, 0),
        (Some("/a/997"), Some(8), 1, 0),
        (Some("/0"), Some(8), 8, 991),
        (Some("/b"), None, 0, 0),
        (None, Some(0), 0, 999),
    ] {
        let request = RangeRequest {
            start_after,
            limit,
            ..under("/a/")
        };
        let range = store.range(&request).await.unwrap();
        assert_eq!(
            (range.items.len(), range.remaining),
            (found, remaining),
            "{request:?}"
        );
        assert_eq!(range.more(), remaining > 0);
    }
}

pub(crate) async fn range_at_a_past_revision(store: Store) {
    let a = create(&store, "/a", "x").await;
    let b = create(&store, "/b", "x").await;
    update(&store, "/a", "y", a).await;
    delete(&store, "/b", b).await;
    let at = |at| RangeRequest {
        at: ReadAt::Revision(Revision::new(at)),
        ..under("/")
    };
    assert_eq!(items(&store, &at(1)).await, [""; 0]);
    assert_eq!(items(&store, &at(2)).await, ["/a = x @ 2, created 2"]);
    assert_eq!(
        items(&store, &at(3)).await,
        ["/a = x @ 2, created 2", "/b = x @ 3, created 3"]
    );
    assert_eq!(
        items(&store, &at(4)).await,
        ["/a = y @ 4, created 2", "/b = x @ 3, created 3"]
    );
    assert_eq!(items(&store, &at(5)).await, ["/a = y @ 4, created 2"]);
}

pub(crate) async fn long_ranges_are_complete(store: Store) {
    // More keys than one lock covers, with as long a gap of deleted keys.
    for number in 0..1500 {
        create(&store, &format!("/{number:04}"), "x").await;
    }
    for number in 300..1300 {
        delete(&store, &format!("/{number:04}"), Revision::new(number + 2)).await;
    }
    let range = store.range(&under("/")).await.unwrap();
    let keys: Vec<String> = (0..300)
        .chain(1300..1500)
        .map(|number| format!("/{number:04}"))
        .collect();
    assert_eq!(
        range.items.iter().map(|item| &*item.key).collect::<Vec<_>>(),
        keys
    );
    assert_eq!(range.revision, Revision::new(2501));
}

pub(crate) async fn reads_at_the_compacted_revision_work(store: Store) {
    let first = create(&store, "/a", "x").await;
    let second = update(&store, "/a", "y", first).await;
    update(&store, "/a", "z", second).await;
    store.compact(second).await.unwrap();
    assert_eq!(store.compacted_revision(), second);
    assert_eq!(value(&store, "/a", Some(second)).await.as_deref(), Some("y"));
    assert_eq!(value(&store, "/a", None).await.as_deref(), Some("z"));
}

pub(crate) async fn reads_below_the_compacted_revision_are_refused(store: Store) {
    let requested = create(&store, "/a", "x").await;
    let compacted = create(&store, "/b", "x").await;
    let current = create(&store, "/c", "x").await;
    store.compact(compacted).await.unwrap();
    let expected = ReadError::Compacted {
        requested,
        compacted,
        current,
    };
    assert_eq!(store.get("/a", Some(requested)).await, Err(expected.clone()));
    let request = RangeRequest {
        at: ReadAt::Revision(requested),
        ..under("/")
    };
    assert_eq!(store.range(&request).await, Err(expected));
    // Compacting again, or at an older revision, changes nothing.
    store.compact(compacted).await.unwrap();
    store.compact(requested).await.unwrap();
    assert_eq!(store.compacted_revision(), compacted);
}

pub(crate) async fn compaction_of_the_future_is_refused(store: Store) {
    let error = store.compact(Revision::new(2)).await.unwrap_err();
    assert!(matches!(error, WriteError::Future { .. }), "{error}");
}

pub(crate) async fn compaction_keeps_what_is_current(store: Store) {
    let a = create(&store, "/a", "x").await;
    let b = create(&store, "/b", "x").await;
    let a = update(&store, "/a", "y", a).await;
    delete(&store, "/b", b).await;
    store.compact(store.current_revision()).await.unwrap();
    assert_eq!(items(&store, &under("/")).await, ["/a = y @ 4, created 2"]);
    update(&store, "/a", "z", a).await;
    create(&store, "/b", "new").await;
    assert_eq!(
        items(&store, &under("/")).await,
        ["/a = z @ 6, created 2", "/b = new @ 7, created 7"]
    );
}

pub(crate) async fn an_empty_store_has_a_revision(store: Store) {
    let range = store.range(&under("/")).await.unwrap();
    assert_eq!((range.items.len(), range.revision), (0, Revision::FIRST));
    store.compact(Revision::FIRST).await.unwrap();
    store.watch("/", Revision::ZERO).unwrap();
}
