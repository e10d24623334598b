//! Benchmarks without a server: reads of a store while it is written to, keys through a queue, workers that drain a
//! backlog, and one event for many subscribers.

mod subscribers;

use std::convert::Infallible;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Resource;
use kube::runtime::controller::{Action, Config as ControllerConfig, applier};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use kube::runtime::watcher::Event as KubeEvent;
use serde::de::DeserializeOwned;
use serde_json::Value;
use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_runtime::queue::{AddOptions, Queue};
use watchkeeper_runtime::store::{self, Store, Writer};
use watchkeeper_runtime::watcher::Event;
use watchkeeper_wire::protobuf::{Envelope, encode_message};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{Object, ObjectOptions};

use super::child::cpu_time;
use super::{median, path_text};
use crate::client_go::{ClientGo, LocalCase};
use watchkeeper_bench_codec::pods;

/// Reads per round.
const READS: usize = 200_000;

/// Index lookups per round. There are few, because a linear search is slow.
const LOOKUPS: usize = 200;

/// Keys queued for the workers.
const BACKLOG: usize = 100_000;

/// Cycles of add, get and done per round.
const CYCLES: u64 = 2_000_000;

/// Workers of the drain.
const WORKERS: usize = 16;

/// Implementations of the same task, and the time of each.
struct Duel {
    name: &'static str,
    unit: &'static str,
    ours: Vec<f64>,
    client_go: Vec<f64>,
    kube: Vec<f64>,
}

impl Duel {
    fn new(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            ours: Vec::new(),
            client_go: Vec::new(),
            kube: Vec::new(),
        }
    }

    fn print(mut self) {
        let [ours, client_go, kube] =
            [&mut self.ours, &mut self.client_go, &mut self.kube].map(|numbers| median(numbers));
        let name = format!("{}, {}", self.name, self.unit);
        // A peer that does not take part has no number.
        let cells = [ours, client_go, kube, ours / client_go, ours / kube].map(|number| {
            let number = number.is_finite().then(|| format!("{number:.3}"));
            format!("{:>14}", number.unwrap_or_else(|| "–".to_owned()))
        });
        println!("{name:<44}{}", cells.concat());
    }
}

/// Runs the cases whose name contains this text.
pub(crate) fn compare(pods: usize, rounds: usize, only: &str, client_go: Option<&ClientGo>) -> Result<()> {
    let columns = ["ours", "client-go", "kube", "÷ client-go", "÷ kube"];
    let columns = columns.map(|column| format!("{column:>14}"));
    println!("\n{:<44}{}", "in one process", columns.concat());
    if "store under a busy writer".contains(only) {
        reads(pods, rounds, client_go)?;
    }
    if "queue".contains(only) {
        cycles(rounds, client_go)?;
        queue(rounds, client_go)?;
    }
    if "subscribers".contains(only) {
        subscribers::time(rounds)?;
    }
    if "drain".contains(only) {
        drain(rounds, client_go)?;
    }
    Ok(())
}

/// One thread reads while another changes the store continuously.
fn reads(pods: usize, rounds: usize, client_go: Option<&ClientGo>) -> Result<()> {
    let values: Vec<Value> = pods::values(pods).collect::<Result<_>>()?;
    let changed = &values[..values.len().min(1000)];
    let mut duels = [
        Duel::new("store get, median", "ns"),
        Duel::new("store get, 99.9 %", "ns"),
        Duel::new("objects of one label value, median", "µs"),
    ];
    let mut client_go = client_go
        .map(|client_go| reading(client_go, &values))
        .transpose()?;
    let (store, mut writer) = our_store(&values, our_pod)?;
    let changes: Vec<Object> = changed.iter().map(our_pod).collect::<Result<_>>()?;
    for round in 0..=rounds {
        let numbers = read_ours(&store, &mut writer, &changes);
        if round > 0 {
            duels
                .iter_mut()
                .zip(numbers)
                .for_each(|(duel, number)| duel.ours.push(number));
        }
        play(&mut client_go, round, duels.each_mut())?;
    }
    // Not earlier: kube's store fragments the heap, which would slow down later allocations of ours.
    let (store, mut writer) = kube_store::<Pod>(&values)?;
    let changes = changed.iter().map(|pod| serde_json::from_value(pod.clone()));
    let changes: Vec<Pod> = changes.collect::<Result<_, _>>()?;
    for round in 0..=rounds {
        let numbers = read_kube(&store, &mut writer, &changes);
        if round > 0 {
            duels
                .iter_mut()
                .zip(numbers)
                .for_each(|(duel, number)| duel.kube.push(number));
        }
    }
    duels.into_iter().for_each(Duel::print);
    Ok(())
}

fn read_ours(store: &Store, writer: &mut Writer, changes: &[Object]) -> [f64; 3] {
    let keys: Vec<ObjectKey> = store.snapshot().keys().collect();
    let mut deltas = Vec::new();
    let change = |turn: usize| {
        writer.apply(
            0,
            Event::Modified(changes[turn % changes.len()].clone()),
            &mut deltas,
        );
        writer.publish();
        deltas.clear();
    };
    under_writes(change, || {
        let gets = times(READS, |turn| {
            drop(black_box(store.get(&keys[scatter(turn, keys.len())])));
        });
        let lookups = times(LOOKUPS, |turn| {
            let app = format!("app-{}", turn % 30);
            let found = store.snapshot().by_index("app", &app).map(Iterator::count);
            black_box(found.ok());
        });
        summary(&gets, &lookups)
    })
}

fn read_kube(
    store: &reflector::Store<Pod>,
    writer: &mut reflector::store::Writer<Pod>,
    changes: &[Pod],
) -> [f64; 3] {
    let state = store.state().into_iter();
    let keys: Vec<ObjectRef<Pod>> = state.map(|pod| ObjectRef::from_obj(&*pod)).collect();
    let change = |turn: usize| {
        let pod = changes[turn % changes.len()].clone();
        writer.apply_watcher_event(&KubeEvent::Apply(pod));
    };
    under_writes(change, || {
        let gets = times(READS, |turn| {
            drop(black_box(store.get(&keys[scatter(turn, keys.len())])));
        });
        let lookups = times(LOOKUPS, |turn| {
            let app = format!("app-{}", turn % 30);
            let labelled =
                |pod: &Pod| pod.metadata.labels.as_ref().and_then(|labels| labels.get("app")) == Some(&app);
            black_box(store.state_filter(labelled).len());
        });
        summary(&gets, &lookups)
    })
}

/// Median and 99.9th percentile of reads in nanoseconds, median of lookups in microseconds.
fn summary(gets: &[Duration], lookups: &[Duration]) -> [f64; 3] {
    [nanos(gets, 500), nanos(gets, 999), nanos(lookups, 500) / 1e3]
}

/// Starts client-go with the same pods in its store.
fn reading(client_go: &ClientGo, values: &[Value]) -> Result<LocalCase> {
    let mut file = tempfile::NamedTempFile::new()?;
    for value in values {
        writeln!(file, "{value}")?;
    }
    file.flush()?;
    client_go.local("reads", path_text(file.path())?)
}

/// Runs a turn of client-go, if it takes part: a number for each duel. The first turn is not counted.
fn play<const N: usize>(
    client_go: &mut Option<LocalCase>,
    round: usize,
    duels: [&mut Duel; N],
) -> Result<()> {
    let Some(client_go) = client_go else { return Ok(()) };
    let numbers = client_go.turn()?;
    ensure!(numbers.len() == N, "client-go: {numbers:?}");
    if round > 0 {
        duels
            .into_iter()
            .zip(numbers)
            .for_each(|(duel, number)| duel.client_go.push(number));
    }
    Ok(())
}

/// Runs `read` while another thread calls `change` continuously.
fn under_writes<T>(mut change: impl FnMut(usize) + Send, read: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while !done.load(Ordering::Relaxed) {
                change(turn);
                turn += 1;
            }
        });
        let result = read();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// The durations of the calls, sorted.
fn times(count: usize, mut call: impl FnMut(usize)) -> Vec<Duration> {
    let one = |turn| {
        let began = Instant::now();
        call(turn);
        began.elapsed()
    };
    let mut times: Vec<Duration> = (0..count).map(one).collect();
    times.sort();
    times
}

fn nanos(sorted: &[Duration], per_mille: usize) -> f64 {
    sorted[(sorted.len() - 1) * per_mille / 1000].as_nanos() as f64
}

fn scatter(turn: usize, count: usize) -> usize {
    turn.wrapping_mul(7_919) % count
}

fn our_store(values: &[Value], object: fn(&Value) -> Result<Object>) -> Result<(Store, Writer)> {
    let (store, mut writer) = store::new();
    let app = |object: &Object| {
        object
            .label("app")
            .map(|app| app.into_owned())
            .into_iter()
            .collect()
    };
    store.add_index("app", app)?;
    let mut deltas = Vec::new();
    writer.apply(0, Event::Init, &mut deltas);
    for value in values {
        writer.apply(0, Event::InitApply(object(value)?), &mut deltas);
    }
    writer.apply(0, Event::InitDone(ResourceVersion::new("900000")), &mut deltas);
    writer.publish();
    Ok((store, writer))
}

fn kube_store<K>(values: &[Value]) -> Result<(reflector::Store<K>, reflector::store::Writer<K>)>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + 'static,
{
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&KubeEvent::Init);
    for value in values {
        let object = serde_json::from_value(value.clone())?;
        writer.apply_watcher_event(&KubeEvent::InitApply(object));
    }
    writer.apply_watcher_event(&KubeEvent::InitDone);
    Ok((store, writer))
}

fn object(value: &Value) -> Result<Object> {
    Ok(Object::from_json(
        value.to_string().as_bytes(),
        &ObjectOptions::default(),
    )?)
}

/// A pod as informers store it: in protobuf, the default encoding.
fn our_pod(value: &Value) -> Result<Object> {
    let schema = Schema::builtin();
    let id = schema.kind("v1", "Pod").context("a schema of pods")?;
    let raw = encode_message(schema, id, value)?;
    let mut body = Vec::new();
    Envelope {
        api_version: "v1",
        kind: "Pod",
        raw: &raw,
    }
    .write(&mut body);
    Ok(Object::from_protobuf(&body, &ObjectOptions::default())?)
}

/// Add, get and done of one key after another on one thread, as with client-go's queue. kube has no equivalent.
fn cycles(rounds: usize, client_go: Option<&ClientGo>) -> Result<()> {
    for (name, backlog) in [
        ("queue: add + get + done", 0),
        ("… behind 100,000 others", BACKLOG as u64),
    ] {
        let mut duel = Duel::new(name, "M/s of CPU");
        let mut client_go = client_go
            .map(|client_go| client_go.local("cycles", &backlog.to_string()))
            .transpose()?;
        for round in 0..=rounds {
            let queue = Queue::<u64>::new(Default::default());
            for key in 0..backlog {
                queue.add(key, AddOptions::default());
            }
            let milliseconds = cpu(|| {
                for key in backlog..backlog + CYCLES {
                    queue.add(key, AddOptions::default());
                    queue.try_next().context("a key")?.succeed();
                }
                Ok(())
            })?;
            if round > 0 {
                duel.ours.push(CYCLES as f64 / milliseconds / 1e3);
            }
            play(&mut client_go, round, [&mut duel])?;
        }
        duel.print();
    }
    Ok(())
}

/// Keys into a queue and out again, on one thread. The closest in kube is its scheduler.
fn queue(rounds: usize, client_go: Option<&ClientGo>) -> Result<()> {
    let mut client_go = client_go
        .map(|client_go| client_go.local("through", ""))
        .transpose()?;
    let mut duel = Duel::new("100,000 keys through a queue", "ms of CPU");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for round in 0..=rounds {
        let ours = cpu(|| {
            let queue = Queue::<usize>::new(Default::default());
            for key in 0..BACKLOG {
                queue.add(key, AddOptions::default());
            }
            while let Some(work) = queue.try_next() {
                work.succeed();
            }
            Ok(())
        })?;
        let kube = cpu(|| {
            runtime.block_on(async {
                let run_at = tokio::time::Instant::now();
                let requests = (0..BACKLOG).map(|message| ScheduleRequest { message, run_at });
                // The scheduler ends with its requests, even if keys are queued; so they must not end.
                let requests = stream::iter(requests).chain(stream::pending());
                let mut scheduler = std::pin::pin!(scheduler(requests));
                for _ in 0..BACKLOG {
                    let next = scheduler.as_mut().hold_unless(|_| true).next().await;
                    next.context("the scheduler has ended")?;
                }
                Ok(())
            })
        })?;
        if round > 0 {
            duel.ours.push(ours);
            duel.kube.push(kube);
        }
        play(&mut client_go, round, [&mut duel])?;
    }
    duel.print();
    Ok(())
}

/// Sixteen workers and a backlog: each looks its object up, yields once, and is done.
fn drain(rounds: usize, client_go: Option<&ClientGo>) -> Result<()> {
    let mut client_go = client_go
        .map(|client_go| client_go.local("drain", ""))
        .transpose()?;
    let mut duels = [
        Duel::new("drain of 100,000 keys, 16 workers", "ms"),
        Duel::new("drain of 100,000 keys, 16 workers", "ms of CPU"),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut maps: Vec<Value> = (0..BACKLOG).map(config_map).collect();
    maps.sort_by_cached_key(key_text); // as servers list
    let (our_store, _our_writer) = our_store(&maps, object)?;
    for round in 0..=rounds {
        let times = wall_and_cpu(|| runtime.block_on(drain_ours(&our_store)))?;
        if round > 0 {
            duels
                .iter_mut()
                .zip(times)
                .for_each(|(duel, time)| duel.ours.push(time));
        }
        play(&mut client_go, round, duels.each_mut())?;
    }
    // Not earlier: kube's store fragments the heap, which would slow down later allocations of ours.
    let (kube_store, _kube_writer) = kube_store::<ConfigMap>(&maps)?;
    for round in 0..=rounds {
        let times = wall_and_cpu(|| runtime.block_on(drain_kube(kube_store.clone())))?;
        if round > 0 {
            duels
                .iter_mut()
                .zip(times)
                .for_each(|(duel, time)| duel.kube.push(time));
        }
    }
    duels.into_iter().for_each(Duel::print);
    Ok(())
}

async fn drain_ours(store: &Store) -> Result<()> {
    let queue = Queue::<ObjectKey>::new(Default::default());
    for key in store.snapshot().keys() {
        queue.add(key, AddOptions::default());
    }
    let workers = (0..WORKERS).map(|_| {
        let (queue, store) = (queue.clone(), store.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while let Some(work) = queue.next().await {
                black_box(store.get(work.key()));
                tokio::task::yield_now().await;
                work.succeed();
                done += 1;
            }
            done
        })
    });
    let workers: Vec<_> = workers.collect();
    queue.drain().await;
    let mut done = 0;
    for worker in workers {
        done += worker.await?;
    }
    ensure!(done == BACKLOG, "{done} keys");
    Ok(())
}

async fn drain_kube(store: reflector::Store<ConfigMap>) -> Result<()> {
    let keys: Vec<ObjectRef<ConfigMap>> = store
        .state()
        .iter()
        .map(|map| ObjectRef::from_obj(&**map))
        .collect();
    let reconcile = |_: Arc<ConfigMap>, _: Arc<()>| {
        Box::pin(async {
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(Action::await_change())
        })
    };
    let done = applier(
        reconcile,
        |_, _, _| Action::await_change(),
        Arc::new(()),
        store,
        stream::iter(keys.into_iter().map(Ok::<_, Infallible>)).chain(stream::pending()),
        ControllerConfig::default().concurrency(WORKERS as u16),
    );
    let done = done.take(BACKLOG).filter(|done| std::future::ready(done.is_ok()));
    let done = done.count().await;
    ensure!(done == BACKLOG, "{done} keys");
    Ok(())
}

fn key_text(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    [text("namespace"), text("name")].join("/")
}

fn config_map(number: usize) -> Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": format!("ns-{}", number % 50), "name": format!("map-{number}"), "uid": format!("u{number}"), "resourceVersion": "1"},
    })
}

/// Milliseconds.
fn wall_and_cpu(work: impl FnOnce() -> Result<()>) -> Result<[f64; 2]> {
    let began = Instant::now();
    let cpu = cpu(work)?;
    Ok([began.elapsed().as_secs_f64() * 1e3, cpu])
}

fn cpu(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = cpu_time();
    work()?;
    Ok((cpu_time() - began).as_secs_f64() * 1e3)
}
