//! Counts instructions in the runtime's hot loops: the cost of one event, read or key after decoding.
//!
//! ```text
//! cargo run --release -p watchkeeper-bench-codec --bin runtime_instructions
//! cargo run --release -p watchkeeper-bench-codec --bin runtime_instructions -- queue # cases about queues
//! ```
//!
//! Requires Valgrind.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use watchkeeper_bench_codec::{callgrind, pods};
use watchkeeper_meta::{ListMeta, ObjectKey, ResourceVersion};
use watchkeeper_runtime::informer::{Informer, Notice, Subscription};
use watchkeeper_runtime::queue::{AddOptions, Queue};
use watchkeeper_runtime::store::{self, Store, Writer};
use watchkeeper_runtime::watcher::{Config, Event, Input, ListRequest, Opening, Source, WatchRequest};
use watchkeeper_wire::{Object, ObjectOptions};

/// Below the capacity of a subscriber, so that each event is delivered separately.
const OBJECTS: usize = 3_000;

/// Higher than any version of the first list.
const LATER: usize = 1_000_000;

/// Keys queued behind the one that is processed.
const BACKLOG: usize = 100_000;

const CASES: [&str; 8] = [
    "watch event into store and subscriber",
    "watch event into store and ten subscribers",
    "store: update and publish",
    "store: get",
    "index: the pods of one node, of 300",
    "relist: a pod that has not changed",
    "queue: add, get, done",
    "queue: the same with 100,000 keys behind",
];

fn main() -> Result<()> {
    callgrind::print("instructions", &CASES, OBJECTS, run)
}

/// Runs one case: the setup, then the loop.
fn run(case: &str) -> Result<()> {
    match case {
        "watch event into store and subscriber" => events(1),
        "watch event into store and ten subscribers" => events(10),
        "store: update and publish" => updates(),
        "store: get" => gets(),
        "index: the pods of one node, of 300" => lookups(),
        "relist: a pod that has not changed" => relists(),
        "queue: add, get, done" => cycles(0),
        "queue: the same with 100,000 keys behind" => cycles(BACKLOG),
        _ => bail!("no such case"),
    }
}

/// Every pod, at a version of this round; round 0 is the first list.
fn round(number: usize) -> Result<Vec<Object>> {
    let text = |pod| match number {
        0 => pods::one(pod),
        _ => pods::one_at(pod, LATER + number * OBJECTS),
    };
    let object = |pod| {
        Ok(Object::from_json(
            text(pod).as_bytes(),
            &ObjectOptions::default(),
        )?)
    };
    let mut objects = (0..OBJECTS).map(object).collect::<Result<Vec<Object>>>()?;
    objects.sort_by_key(Object::key); // as servers list
    Ok(objects)
}

/// A server that sends a round of changes on request.
struct InRounds {
    listed: Vec<Object>,
    rounds: Vec<Vec<Object>>,
    begin: Arc<Semaphore>,
}

impl Source for InRounds {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        let items: Vec<_> = self.listed.iter().cloned().map(Input::Item).collect();
        let end = Input::PageEnd(ListMeta {
            resource_version: ResourceVersion::from(LATER as u64),
            ..Default::default()
        });
        async { Ok(stream::iter(items.into_iter().chain([end])).boxed()) }.boxed()
    }

    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        let begin = self.begin.clone();
        let rounds = stream::iter(self.rounds.clone()).then(move |round| {
            let begin = begin.clone();
            async move {
                let _ = begin.acquire().await.map(|permit| permit.forget());
                stream::iter(round.into_iter().map(Input::Modified))
            }
        });
        async { Ok(rounds.flatten().chain(stream::pending()).boxed()) }.boxed()
    }
}

fn events(subscribers: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let begin = Arc::new(Semaphore::new(0));
    let source = InRounds {
        listed: round(0)?,
        rounds: vec![round(1)?, round(2)?],
        begin: begin.clone(),
    };
    let (_informer, mut subscriptions) = runtime.block_on(synced(source, subscribers))?;
    callgrind::play(
        &mut || {
            begin.add_permits(1);
            hear(&runtime, &mut subscriptions)
        },
        OBJECTS,
    )
}

async fn synced(source: InRounds, subscribers: usize) -> Result<(Informer, Vec<Subscription>)> {
    let informer = Informer::start(Arc::new(source), Config::paged().into());
    let subscribe = |_| informer.subscribe(Default::default());
    let mut subscriptions: Vec<Subscription> = (0..subscribers).map(subscribe).collect();
    for subscription in &mut subscriptions {
        while subscription.next().await.context("the informer has ended")? != Notice::Synced {}
    }
    Ok((informer, subscriptions))
}

/// Waits until every subscriber has an event for every pod.
fn hear(runtime: &Runtime, subscriptions: &mut [Subscription]) -> Result<usize> {
    runtime.block_on(async {
        for subscription in subscriptions {
            for _ in 0..OBJECTS {
                subscription.next().await.context("the informer has ended")?;
            }
        }
        Ok(OBJECTS)
    })
}

fn filled() -> Result<(Store, Writer)> {
    let (store, mut writer) = store::new();
    list(&mut writer, round(0)?);
    Ok((store, writer))
}

/// The number of changes in a list.
fn list(writer: &mut Writer, objects: Vec<Object>) -> usize {
    let mut deltas = Vec::new();
    writer.apply(0, Event::Init, &mut deltas);
    for object in objects {
        writer.apply(0, Event::InitApply(object), &mut deltas);
    }
    writer.apply(
        0,
        Event::InitDone(ResourceVersion::from(LATER as u64)),
        &mut deltas,
    );
    writer.publish();
    deltas.len()
}

fn updates() -> Result<()> {
    let (_store, mut writer) = filled()?;
    let mut rounds = vec![round(2)?, round(1)?];
    callgrind::play(
        &mut || {
            let mut deltas = Vec::with_capacity(OBJECTS);
            for object in rounds.pop().context("another round")? {
                writer.apply(0, Event::Modified(object), &mut deltas);
                writer.publish();
            }
            Ok(deltas.len())
        },
        OBJECTS,
    )
}

fn gets() -> Result<()> {
    let (store, _writer) = filled()?;
    let keys: Vec<ObjectKey> = store.snapshot().keys().collect();
    callgrind::play(
        &mut || Ok(keys.iter().filter_map(|key| store.get(key)).count()),
        OBJECTS,
    )
}

fn lookups() -> Result<()> {
    let (store, _writer) = filled()?;
    let node = |pod: &Object| {
        let value = pod.to_value().unwrap_or_default();
        value["spec"]["nodeName"]
            .as_str()
            .map(str::to_owned)
            .into_iter()
            .collect()
    };
    store.add_index("node", node)?;
    let nodes: Vec<String> = (0..OBJECTS)
        .map(|number| format!("node-{}", number % 300))
        .collect();
    let snapshot = store.snapshot();
    callgrind::play(
        &mut || {
            let mut found = 0;
            for node in &nodes {
                found += usize::from(snapshot.by_index("node", node)?.count() == OBJECTS / 300);
            }
            Ok(found)
        },
        OBJECTS,
    )
}

fn relists() -> Result<()> {
    let (_store, mut writer) = filled()?;
    let mut rounds = vec![round(0)?, round(0)?];
    callgrind::play(
        &mut || Ok(OBJECTS + list(&mut writer, rounds.pop().context("another list")?)),
        OBJECTS,
    )
}

fn cycles(backlog: usize) -> Result<()> {
    let queue = Queue::<usize>::new(Default::default());
    for key in 0..backlog {
        queue.add(key, AddOptions::default());
    }
    let mut keys = backlog..;
    callgrind::play(
        &mut || {
            for key in keys.by_ref().take(OBJECTS) {
                queue.add(key, AddOptions::default());
                queue.try_next().context("a key")?.succeed();
            }
            Ok(OBJECTS)
        },
        OBJECTS,
    )
}
