//! The guarantees of every engine. Each function takes a new, empty store; the list at the end runs all of them on all
//! engines, with a paused clock. Over etcd, whose clock cannot be paused, tests of time are left out (they are in
//! `etcd`), and so are guarantees that need a single process.

#[cfg(feature = "etcd")]
#[path = "../support/etcd.rs"]
mod etcd_process;
mod feeds;
mod reads;
mod time;
mod writes;

use std::sync::Arc;

use bytes::Bytes;
use watchkeeper_storage::{
    Batch, Change, Feed, KeyValue, Range, RangeRequest, ReadAt, Revision, Store, WriteError,
};

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// `7 /a = new, was old since 5, created 2`
fn show(change: &Arc<Change>) -> String {
    let mut line = format!("{} {}", change.revision, change.key);
    match &change.value {
        Some(value) => line += &format!(" = {}", text(&value.bytes())),
        None => line += " gone",
    }
    if let Some((value, since)) = &change.previous {
        line += &format!(", was {} since {since}", text(&value.bytes()));
    }
    line + &format!(", created {}", change.create_revision)
}

/// `/a = value @ 5, created 2`
fn show_item(item: &KeyValue) -> String {
    let KeyValue {
        key,
        value,
        create_revision,
        mod_revision,
    } = item;
    format!(
        "{key} = {} @ {mod_revision}, created {create_revision}",
        text(&value.bytes())
    )
}

fn show_batch(batch: &Batch) -> Vec<String> {
    batch.changes.iter().map(show).collect()
}

/// Reads until the feed is at a revision.
async fn read_until(feed: &mut Feed, revision: Revision) -> Vec<String> {
    let mut lines = Vec::new();
    while feed.position() < revision {
        let batch = feed.read().unwrap();
        lines.extend(show_batch(&batch));
    }
    lines
}

async fn create(store: &Store, key: &str, value: &'static str) -> Revision {
    store.create(key, value.into(), None).await.unwrap()
}

async fn update(store: &Store, key: &str, value: &'static str, expected: Revision) -> Revision {
    store.update(key, value.into(), expected, None).await.unwrap()
}

async fn delete(store: &Store, key: &str, expected: Revision) -> Revision {
    store.delete(key, expected).await.unwrap()
}

async fn value(store: &Store, key: &str, at: Option<Revision>) -> Option<String> {
    let found = store.get(key, at).await.unwrap();
    found.map(|found| text(&found.value.bytes()).to_owned())
}

async fn items(store: &Store, request: &RangeRequest<'_>) -> Vec<String> {
    let range = store.range(request).await.unwrap();
    range.items.iter().map(show_item).collect()
}

/// The current value that a conflict reports.
fn conflict(result: Result<Revision, WriteError>) -> Option<String> {
    match result {
        Err(WriteError::Conflict { current }) => current.as_ref().map(show_item),
        other => panic!("expected a conflict, not {other:?}"),
    }
}

/// Everything that can be read from a store.
#[derive(Debug, PartialEq)]
struct Everything {
    current: Range,
    compacted: Range,
    history: Vec<Arc<Change>>,
}

impl Everything {
    /// `None` if the store is closed.
    async fn of(store: &Store) -> Option<Self> {
        let at = store.compacted_revision();
        let compacted = RangeRequest {
            at: ReadAt::Revision(at),
            ..Default::default()
        };
        let mut feed = store.watch("", at).ok()?;
        let mut history = Vec::new();
        while feed.position() < store.current_revision() {
            let batch = feed.read().unwrap();
            history.extend(batch.changes);
        }
        Some(Self {
            current: store.range(&RangeRequest::default()).await.ok()?,
            compacted: store.range(&compacted).await.ok()?,
            history,
        })
    }
}

/// Tests of an in-memory store and of one on disk.
macro_rules! embedded {
    ($($module:ident: $($name:ident)*;)*) => {
        mod memory {
            $($(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    let store = crate::conformance::Store::memory(Default::default());
                    crate::conformance::$module::$name(store.clone()).await;
                    store.close().await;
                }
            )*)*
        }

        mod redb {
            $($(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    let dir = tempfile::tempdir().unwrap();
                    let open = || crate::conformance::Store::open(dir.path(), Default::default());
                    let store = open().await.unwrap();
                    crate::conformance::$module::$name(store.clone()).await;
                    crate::conformance::check_reopened(store, async || open().await.unwrap()).await;
                }
            )*)*
        }
    };
}

/// Tests of a store over its own etcd.
macro_rules! over_etcd {
    ($($module:ident: $($name:ident)*;)*) => {
        #[cfg(feature = "etcd")]
        mod etcd {
            $($(
                #[tokio::test]
                async fn $name() {
                    let Some(etcd) = crate::conformance::etcd_process::Etcd::start() else { return };
                    let options = || watchkeeper_storage::EtcdOptions::at([etcd.url()]);
                    let open = || crate::conformance::Store::etcd(options(), Default::default());
                    let store = open().await.unwrap();
                    crate::conformance::$module::$name(store.clone()).await;
                    crate::conformance::check_reopened(store, async || open().await.unwrap()).await;
                }
            )*)*
        }
    };
}

macro_rules! conformance {
    (
        everywhere { $($everywhere:tt)* }
        in_process { $($in_process:tt)* }
    ) => {
        embedded! { $($everywhere)* }
        over_etcd! { $($everywhere)* }
        mod in_process {
            embedded! { $($in_process)* }
        }
    };
}

/// Checks that the store has the same content after it is reopened.
async fn check_reopened(store: Store, open: impl AsyncFn() -> Store) {
    let before = Everything::of(&store).await;
    store.close().await;
    let again = open().await;
    let mut after = Everything::of(&again).await;
    match (&before, &mut after) {
        // Opening a shared store may write the fence.
        (Some(before), Some(after)) if again.is_shared() => {
            assert!(after.current.revision >= before.current.revision);
            after.current.revision = before.current.revision;
        }
        _ => assert_eq!(again.current_revision(), store.current_revision()),
    }
    assert!(before.is_none() || before == after, "{before:#?} {after:#?}");
    again.close().await;
}

conformance! {
    everywhere {
        writes:
            create_takes_the_next_revision
            create_refuses_an_existing_key
            update_refuses_a_stale_revision
            update_refuses_a_missing_key
            delete_refuses_a_stale_revision
            delete_of_a_missing_key_is_a_conflict
            recreated_keys_have_a_new_create_revision
            one_of_many_concurrent_updates_wins
            bad_keys_are_refused;
        reads:
            get_at_a_past_revision
            get_in_the_future_is_refused
            range_is_ordered_and_stays_within_the_prefix
            range_pages_show_one_moment
            range_counts_what_remains
            range_at_a_past_revision
            long_ranges_are_complete
            reads_at_the_compacted_revision_work
            reads_below_the_compacted_revision_are_refused
            compaction_of_the_future_is_refused
            compaction_keeps_what_is_current
            an_empty_store_has_a_revision;
        feeds:
            feed_delivers_changes_with_previous_values
            feed_stays_within_the_prefix
            feed_starts_after_its_revision
            feed_waits_for_a_future_revision
            feed_works_at_the_compacted_revision
            feed_below_the_compacted_revision_is_refused
            feed_that_fell_behind_gets_an_error
            feed_that_had_nothing_to_read_survives_compaction
            feed_reports_progress
            feed_with_progress_returns_without_changes
            feed_delivers_long_histories_in_batches
            feeds_are_independent
            many_feeds_see_one_change
            close_ends_feeds_after_the_last_change;
    }
    in_process {
        writes:
            large_values_are_refused
            values_are_shared_not_copied;
        time:
            expired_keys_are_deleted
            update_moves_the_expiry
            update_without_ttl_ends_the_expiry
            recreated_keys_do_not_inherit_an_expiry
            expiry_of_many_keys
            old_history_is_compacted
            young_history_is_kept;
    }
}
