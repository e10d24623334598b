//! The same calls have the same outcomes, revisions included, on an in-memory store and on one over etcd.

use proptest::prelude::*;
use watchkeeper_storage::{RangeRequest, ReadError, Revision, Store, StoreOptions, WriteError};

use crate::etcd::Etcd;
use crate::open;

/// Calls per history, and histories. Each has its own etcd, because revisions must start at 1.
const MAX_CALLS: usize = 60;
const HISTORIES: u32 = 12;

/// One call. Revisions are relative to the newest, so that they are often valid.
#[derive(Clone, Debug)]
enum Call {
    Create {
        key: u8,
        value: u8,
    },
    Update {
        key: u8,
        value: u8,
        back: Back,
    },
    Delete {
        key: u8,
        back: Back,
    },
    Get {
        key: u8,
        back: u64,
    },
    Range {
        prefix: u8,
        limit: Option<usize>,
        back: u64,
    },
    Watch {
        prefix: u8,
        back: u64,
    },
    Compact {
        back: u64,
    },
}

/// The revision that a write expects.
#[derive(Clone, Debug)]
enum Back {
    /// The current one of the key.
    Right,
    /// That many before the newest.
    Other(u64),
}

fn call() -> impl Strategy<Value = Call> {
    let key = 0..6u8;
    let back = || prop_oneof![3 => Just(Back::Right), 1 => (0..8u64).prop_map(Back::Other)];
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Call::Create { key, value }),
        4 => (key.clone(), any::<u8>(), back()).prop_map(|(key, value, back)| Call::Update { key, value, back }),
        2 => (key.clone(), back()).prop_map(|(key, back)| Call::Delete { key, back }),
        2 => (key, 0..12u64).prop_map(|(key, back)| Call::Get { key, back }),
        2 => (0..3u8, proptest::option::of(0..4usize), 0..12u64)
            .prop_map(|(prefix, limit, back)| Call::Range { prefix, limit, back }),
        2 => (0..3u8, 0..12u64).prop_map(|(prefix, back)| Call::Watch { prefix, back }),
        1 => (0..12u64).prop_map(|back| Call::Compact { back }),
    ]
}

fn name(key: u8) -> String {
    format!("/{}/{key}", key % 2)
}

fn prefix(number: u8) -> String {
    match number {
        2 => String::new(),
        number => format!("/{number}/"),
    }
}

/// Makes a call and describes its outcome.
async fn outcome(store: &Store, call: &Call) -> String {
    let ago = |back: u64| Revision::new(store.current_revision().get().saturating_sub(back));
    let written = |result: Result<Revision, WriteError>| match result {
        Err(WriteError::Conflict { current }) => format!("{current:?}"),
        other => format!("{other:?}"),
    };
    match call {
        Call::Create { key, value } => written(store.create(&name(*key), vec![*value].into(), None).await),
        Call::Update { key, value, back } => {
            let expected = expected(store, *key, back).await;
            written(
                store
                    .update(&name(*key), vec![*value].into(), expected, None)
                    .await,
            )
        }
        Call::Delete { key, back } => {
            let expected = expected(store, *key, back).await;
            written(store.delete(&name(*key), expected).await)
        }
        Call::Get { key, back } => format!("{:?}", store.get(&name(*key), Some(ago(*back))).await),
        Call::Range {
            prefix: number,
            limit,
            back,
        } => {
            let request = RangeRequest {
                prefix: &prefix(*number),
                limit: *limit,
                at: (*back > 0).then(|| ago(*back - 1)).into(),
                ..Default::default()
            };
            format!("{:?}", store.range(&request).await)
        }
        Call::Watch { prefix: number, back } => {
            let read = store
                .watch(&prefix(*number), ago(*back))
                .and_then(|mut feed| feed.read());
            format!("{read:?}")
        }
        Call::Compact { back } => format!(
            "{:?}",
            store.compact(ago(*back)).await.map_err(|error| error.to_string())
        ),
    }
}

async fn expected(store: &Store, key: u8, back: &Back) -> Revision {
    match back {
        Back::Other(back) => Revision::new(store.current_revision().get().saturating_sub(*back)),
        Back::Right => {
            let found: Result<_, ReadError> = store.get(&name(key), None).await;
            found
                .unwrap()
                .map_or(Revision::new(7), |found| found.mod_revision)
        }
    }
}

async fn compare(calls: &[Call]) -> bool {
    let Some(etcd) = Etcd::start() else { return false };
    let (memory, shared) = (Store::memory(StoreOptions::default()), open(etcd.url()).await);
    for (number, call) in calls.iter().enumerate() {
        let expected = outcome(&memory, call).await;
        assert_eq!(outcome(&shared, call).await, expected, "call {number}: {call:?}");
        assert_eq!(shared.current_revision(), memory.current_revision());
        assert_eq!(
            shared.compacted_revision(),
            memory.compacted_revision(),
            "call {number}: {call:?}"
        );
    }
    true
}

#[test]
fn etcd_behaves_like_memory() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: HISTORIES,
        max_shrink_iters: 50,
        failure_persistence: None,
        ..Default::default()
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runner
        .run(&proptest::collection::vec(call(), 1..MAX_CALLS), |calls| {
            runtime.block_on(compare(&calls));
            Ok(())
        })
        .unwrap();
}
