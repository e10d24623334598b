//! Random writes and faults by seed: whatever happens, store and server agree in the end, and what each subscriber
//! was told adds up to the same.
//!
//! A seed runs on one thread and on tokio's clock, so one that fails fails again:
//! `WATCHKEEPER_SEED=17 cargo test -p watchkeeper-runtime --test cluster simulation`. More of them:
//! `WATCHKEEPER_SEEDS=2000`, as the gate does.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use watchkeeper_meta::{ListOptions, Status};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::delta::Delta;
use watchkeeper_runtime::informer::{Informer, InformerOptions, Notice, SubscribeOptions, Subscription};
use watchkeeper_runtime::watcher::{Config, InitialList};
use watchkeeper_server::{Flow, RequestMatch, Verb};

use crate::support::{Cluster, IN_THE_END};

const DEFAULT_SEEDS: u64 = 40;
const STEPS: usize = 60;

type Versions = BTreeMap<String, String>;

#[test]
fn store_and_server_agree_after_any_faults() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("WATCHKEEPER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WATCHKEEPER_SEEDS").unwrap_or(DEFAULT_SEEDS),
    };
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while failed.load(Ordering::Relaxed) == u64::MAX
                    && let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seeds.contains(&seed)
                {
                    if std::panic::catch_unwind(|| run(seed)).is_err() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert!(failed == u64::MAX, "failed with WATCHKEEPER_SEED={failed}");
}

fn run(seed: u64) {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime
        .expect("a runtime")
        .block_on(simulate(Rng::with_seed(seed)));
}

async fn simulate(mut rng: Rng) {
    let cluster = Cluster::start().await;
    let informer = start(&cluster, &mut rng);
    let mut views: Vec<View> = [1, 3, 4096].map(|capacity| View::new(&informer, capacity)).into();
    let mut names = BTreeSet::new();
    for step in 0..STEPS {
        write(&cluster, &mut names, &mut rng).await;
        if rng.u8(..4) == 0 {
            disturb(&cluster, &mut rng).await;
        }
        if rng.u8(..8) == 0 {
            views.push(View::new(&informer, rng.usize(1..10)));
        }
        if rng.bool() {
            tokio::time::sleep(Duration::from_millis(rng.u64(..3000))).await;
        }
        let slow = step % views.len();
        views[slow].look().await;
    }
    cluster.server.faults().clear();
    cluster
        .server
        .faults()
        .set_flow(&RequestMatch::default(), Flow::Running);
    let last = cluster.create("the-end").await;
    let end = last.version();
    let caught_up = informer.store().wait_for(&end);
    let snapshot = tokio::time::timeout(IN_THE_END, caught_up)
        .await
        .expect("catches up");
    let listed = cluster
        .maps()
        .list(&ListOptions::default())
        .await
        .expect("a list");
    let versions = |objects: &mut dyn Iterator<Item = &watchkeeper_wire::Object>| -> Versions {
        objects
            .map(|object| (object.name().to_owned(), object.resource_version().to_owned()))
            .collect()
    };
    let truth = versions(&mut listed.items.iter());
    assert_eq!(
        versions(&mut snapshot.iter()),
        truth,
        "the store is what the server has"
    );
    for view in &mut views {
        while view.seen != truth {
            let more = tokio::time::timeout(IN_THE_END, view.take()).await;
            more.unwrap_or_else(|_| panic!("stays at {:?} instead of {truth:?}", view.seen));
        }
    }
    cluster.server.shutdown().await;
}

fn start(cluster: &Cluster, rng: &mut Rng) -> Informer {
    let config = Config {
        initial_list: if rng.bool() {
            InitialList::Streaming
        } else {
            InitialList::Paged
        },
        page_size: rng.bool().then_some(2),
        timeout: Duration::from_secs(rng.u64(1..20)),
        ..Default::default()
    };
    let options = InformerOptions {
        config,
        ..Default::default()
    };
    Informer::start(Arc::new(ApiSource::new(cluster.maps())), options)
}

/// Creates, changes or deletes one of a few objects.
async fn write(cluster: &Cluster, names: &mut BTreeSet<String>, rng: &mut Rng) {
    let name = format!("map-{}", rng.u8(..6));
    if !names.contains(&name) {
        cluster.create(&name).await;
        names.insert(name);
    } else if rng.u8(..3) == 0 {
        cluster.delete(&name).await;
        names.remove(&name);
    } else {
        cluster.change(&name, &rng.u64(..).to_string()).await;
    }
}

/// Breaks something.
async fn disturb(cluster: &Cluster, rng: &mut Rng) {
    let faults = cluster.server.faults();
    let watches = RequestMatch::new(Verb::Watch, "configmaps");
    let lists = RequestMatch::new(Verb::List, "configmaps");
    let answer = |request: &RequestMatch, times: u32, status: Status| {
        faults
            .answer_next(request.clone(), times, status)
            .expect("planned");
    };
    match rng.u8(..10) {
        0 => drop(faults.set_flow(&watches, Flow::Cut)),
        1 => drop(faults.set_flow(&watches, Flow::Ended)),
        2 => drop(faults.set_flow(&watches, Flow::Stalled)),
        3 => drop(faults.set_flow(&watches, Flow::Running)),
        4 => answer(&watches, 1, Status::watch_expired()),
        5 => answer(&watches, rng.u32(1..4), Status::too_many_requests("later", 1)),
        6 => answer(&lists, rng.u32(1..3), Status::internal_error("boom")),
        7 => answer(&lists, 1, Status::list_expired()),
        8 => answer(&watches, rng.u32(1..4), Status::internal_error("boom")),
        _ => {
            // Everything but the present is forgotten.
            let store = cluster.server.registry().store();
            store.compact(store.current_revision()).await.expect("compacted");
            faults.set_flow(&watches, Flow::Cut);
        }
    }
}

/// What one subscriber was told, added up.
struct View {
    subscription: Subscription,
    seen: Versions,
}

impl View {
    fn new(informer: &Informer, capacity: usize) -> Self {
        let options = SubscribeOptions {
            capacity,
            ..Default::default()
        };
        Self {
            subscription: informer.subscribe(options),
            seen: Versions::new(),
        }
    }

    /// Takes what is there right now.
    async fn look(&mut self) {
        while tokio::time::timeout(Duration::ZERO, self.take()).await.is_ok() {}
    }

    async fn take(&mut self) {
        let Some(Notice::Change(delta)) = self.subscription.next().await else {
            return;
        };
        let name = delta.object().name().to_owned();
        let version = delta.object().resource_version().to_owned();
        match delta {
            Delta::Added { .. } => assert_eq!(self.seen.insert(name, version), None, "added what was there"),
            Delta::Updated { old, .. } => {
                let before = self.seen.insert(name, version);
                assert_eq!(
                    before.as_deref(),
                    Some(old.resource_version()),
                    "updated from another state"
                );
            }
            Delta::Deleted { .. } => assert!(self.seen.remove(&name).is_some(), "deleted what was not there"),
        }
    }
}
