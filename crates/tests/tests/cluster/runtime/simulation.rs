//! Random writes and faults by seed. In the end store and server agree, the events of each subscriber add up to the
//! same state, and so do those of a follower with a position that is restarted often. No existing object is ever
//! reported as deleted.
//!
//! A seed runs on one thread with a simulated clock, so a failure is reproducible: `WATCHKEEPER_SEED=17 cargo test -p
//! watchkeeper-tests runtime::simulation`. For more seeds, as in CI: `WATCHKEEPER_SEEDS=2000`.

mod follower;
mod odd_source;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{GroupResource, PatchKind, Status};
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::informer::{Informer, InformerOptions};
use watchkeeper_runtime::store::{Snapshot, Transform};
use watchkeeper_runtime::watcher::{Config, InitialList};
use watchkeeper_server::{Flow, RequestMatch, Verb};
use watchkeeper_wire::{Object, ObjectOptions};

use self::follower::Follower;
use self::odd_source::{Odd, OddSource};
use self::view::View;
use crate::runtime::support::{Cluster, IN_THE_END, config_map, config_maps};

const DEFAULT_SEEDS: u64 = 40;
const STEPS: usize = 60;

/// The annotation that counts how often an object was transformed.
const TRANSFORMED: &str = "example.com/transformed";

/// The last one is created during the run.
const NAMESPACES: [&str; 3] = ["default", "kube-system", "late"];

/// Versions by key.
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
    let mut world = World::start(&mut rng).await;
    let mut views: Vec<View> = [1, 3, 4096].map(|capacity| world.view(capacity, &mut rng)).into();
    let mut follower = Follower::start(&world.sources, &mut rng);
    for step in 0..STEPS {
        world.write(&mut rng).await;
        if rng.u8(..4) == 0 {
            world.disturb(&mut rng).await;
        }
        match rng.u8(..16) {
            0 | 1 => views.push(world.view(rng.usize(1..10), &mut rng)),
            2 if views.len() > 3 => drop(views.swap_remove(rng.usize(..views.len()))),
            3 => follower.restart(&mut rng),
            _ => {}
        }
        if rng.bool() {
            tokio::time::sleep(Duration::from_millis(rng.u64(..3000))).await;
        }
        let slow = step % views.len();
        views[slow].look(&world.deleted).await;
        if rng.bool() {
            follower.look(&world.deleted).await;
        }
    }
    world.heal();
    follower.heal();
    let truth = world.truth().await;
    let agrees = |snapshot: &Snapshot| versions(snapshot.iter()) == truth;
    let agreed = tokio::time::timeout(IN_THE_END, world.informer.store().wait_until(agrees)).await;
    if !matches!(agreed, Ok(Ok(_))) {
        let store = versions(world.informer.store().snapshot().iter());
        panic!("the store stays at {store:?} instead of {truth:?}");
    }
    for view in &mut views {
        view.reaches(&truth, &world.deleted).await;
    }
    follower.reaches(&truth, &world.deleted).await;
    world.cluster.server.shutdown().await;
}

fn versions<'a>(objects: impl Iterator<Item = &'a Object>) -> Versions {
    objects
        .map(|object| (object.key().to_string(), object.resource_version().to_owned()))
        .collect()
}

/// A server, the objects written to it, and an informer that watches some of them.
struct World {
    cluster: Cluster,
    /// The informer's namespaces; none means all.
    scope: &'static [&'static str],
    sources: Vec<Arc<OddSource>>,
    odd: Arc<Odd>,
    informer: Informer,
    transforms: bool,
    /// The number of existing namespaces.
    namespaces: usize,
    there: BTreeSet<String>,
    /// Every deleted object: no other may be reported as deleted.
    deleted: BTreeSet<String>,
}

impl World {
    async fn start(rng: &mut Rng) -> Self {
        let cluster = Cluster::start().await;
        let scope: &[&str] = [&[][..], &["default"], &["default", "late"]][rng.usize(..3)];
        let odd = Arc::new(Odd::new(rng.bool()));
        let maps = cluster.client.dynamic(config_maps());
        let source = |api: DynamicApi| Arc::new(OddSource::new(ApiSource::new(api), odd.clone()));
        let sources: Vec<Arc<OddSource>> = match scope {
            [] => vec![source(maps.all_namespaces())],
            named => named
                .iter()
                .map(|name| source(maps.clone().namespace(*name)))
                .collect(),
        };
        let transforms = rng.bool();
        let options = InformerOptions {
            transform: transforms.then(|| Arc::new(marked) as Transform),
            ..config(rng).into()
        };
        let informer = match scope {
            [] => Informer::start(sources[0].clone(), options),
            named => {
                let parts = named.iter().zip(&sources);
                let parts = parts.map(|(name, source)| (name.to_string(), source.clone() as _));
                Informer::start_in_namespaces(parts.collect(), options)
            }
        };
        Self {
            cluster,
            scope,
            sources,
            odd,
            informer,
            transforms,
            namespaces: 2,
            there: BTreeSet::new(),
            deleted: BTreeSet::new(),
        }
    }

    /// Adds a subscriber.
    fn view(&self, capacity: usize, rng: &mut Rng) -> View {
        View::new(&self.informer, capacity, self.transforms, rng)
    }

    /// Creates, changes or deletes one of a few objects.
    async fn write(&mut self, rng: &mut Rng) {
        let namespace = NAMESPACES[rng.usize(..self.namespaces)];
        let name = format!("map-{}", rng.u8(..4));
        let key = format!("{namespace}/{name}");
        let maps = self.cluster.client.dynamic(config_maps()).namespace(namespace);
        if !self.there.contains(&key) {
            let map = config_map(namespace, &name, "one");
            maps.create(&map).await.expect("created");
            self.there.insert(key);
        } else if rng.u8(..3) == 0 {
            maps.delete(&name).await.expect("deleted");
            self.there.remove(&key);
            self.deleted.insert(key);
        } else {
            let patch = json!({"data": {"key": rng.u64(..).to_string()}});
            let patched = maps.patch(&name, PatchKind::Merge, &patch).await;
            patched.expect("changed");
        }
    }

    /// Injects a fault.
    async fn disturb(&mut self, rng: &mut Rng) {
        let faults = self.cluster.server.faults();
        let watches = RequestMatch::new(Verb::Watch, "configmaps");
        let lists = RequestMatch::new(Verb::List, "configmaps");
        let resource = GroupResource::new("", "configmaps");
        let answer = |request: &RequestMatch, times: u32, status: Status| {
            faults
                .answer_next(request.clone(), times, status)
                .expect("planned");
        };
        match rng.u8(..15) {
            0 => drop(faults.set_flow(&watches, Flow::Cut)),
            1 => drop(faults.set_flow(&watches, Flow::Ended)),
            2 => drop(faults.set_flow(&watches, Flow::Stalled)),
            3 => drop(faults.set_flow(&watches, Flow::Running)),
            4 => answer(&watches, 1, Status::watch_expired()),
            5 => answer(&watches, rng.u32(1..4), Status::too_many_requests("later", 1)),
            6 => answer(&lists, rng.u32(1..3), Status::internal_error("boom")),
            7 => answer(&lists, 1, Status::list_expired()),
            8 => answer(&watches, rng.u32(1..4), Status::internal_error("boom")),
            9 | 10 => {
                // A permission, or the kind, is removed for a while.
                let refusal = match rng.bool() {
                    true => Status::forbidden(&resource, "", "the role is gone"),
                    false => Status::not_found(&resource, "the kind is gone"),
                };
                answer(&watches, rng.u32(1..4), refusal.clone());
                answer(&lists, rng.u32(1..4), refusal);
                faults.set_flow(&watches, Flow::Cut);
            }
            11 | 12 => self.odd.add(&format!("map-{}", rng.u8(..4))),
            13 if self.namespaces < NAMESPACES.len() => {
                let late = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}});
                let created = self.cluster.client.dynamic(namespaces());
                created.create(&late).await.expect("created");
                self.namespaces += 1;
            }
            13 => self.odd.clear(),
            _ => {
                // All history is compacted.
                let store = self.cluster.server.registry().store();
                store.compact(store.current_revision()).await.expect("compacted");
                faults.set_flow(&watches, Flow::Cut);
            }
        }
    }

    /// Ends all faults. Undecodable objects appear in the next list.
    fn heal(&self) {
        let faults = self.cluster.server.faults();
        faults.clear();
        self.odd.clear();
        self.sources.iter().for_each(|source| source.expire());
        faults.set_flow(&RequestMatch::default(), Flow::Cut);
    }

    /// The server's objects that the informer should have.
    async fn truth(&self) -> Versions {
        let maps = self.cluster.client.dynamic(config_maps()).all_namespaces();
        let listed = maps.list().await.expect("a list");
        let seen = |object: &&Object| self.scope.is_empty() || self.scope.contains(&object.namespace());
        versions(listed.items.iter().filter(seen))
    }
}

fn config(rng: &mut Rng) -> Config {
    let initial_list = match rng.bool() {
        true => InitialList::Streaming,
        false => InitialList::Paged,
    };
    Config {
        initial_list,
        page_size: rng.bool().then_some(2),
        timeout: Duration::from_secs(rng.u64(1..20)),
        ..Default::default()
    }
}

/// The object, transformed once more.
fn marked(object: Object) -> Object {
    let marks = object.annotation(TRANSFORMED).map_or(0, |marks| marks.len());
    let mut value = object.to_value().expect("JSON");
    value["metadata"]["annotations"][TRANSFORMED] = "x".repeat(marks + 1).into();
    Object::from_json(value.to_string().as_bytes(), &ObjectOptions::default()).expect("an object")
}

fn namespaces() -> watchkeeper_meta::Resource {
    watchkeeper_meta::Resource {
        kind: "Namespace".into(),
        plural: "namespaces".into(),
        scope: watchkeeper_meta::Scope::Cluster,
        ..config_maps()
    }
}
