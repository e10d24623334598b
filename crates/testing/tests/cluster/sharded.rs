//! Replicas of a sharded controller on one server, with moved time: they share the work, crash, come back and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::sharding::{ShardOptions, ShardPart, ShardedController};
use watchkeeper_runtime::store::Store;
use watchkeeper_testing::{TestCluster, TestOptions};

use crate::support::{START, create_map, maps, names, resource};

const SHARDS: u32 = 12;
const OBJECTS: usize = 60;
/// The feature gate of KEP-5866.
const SHARDED_WATCHES: &str = "ShardedListAndWatch=true";

/// The reconciles, by replica.
type Log = Arc<Mutex<Vec<(String, String)>>>;

struct Replica {
    held: watch::Receiver<BTreeSet<u32>>,
    stores: Arc<Mutex<BTreeMap<u32, Store>>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(cluster: &TestCluster, name: &str, log: &Log) -> Self {
        let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
        let options = ShardOptions::new("maps", name, SHARDS);
        let stores = Arc::<Mutex<BTreeMap<u32, Store>>>::default();
        let (kept, log, name) = (stores.clone(), log.clone(), name.to_owned());
        let sharded = ShardedController::new(cluster.client(), options, move |shard| {
            let index = shard.index;
            let own = Selection {
                namespaces: vec!["default".to_owned()],
                shard: Some(ShardPart::Own(shard)),
                ..Selection::all(resource("", "configmaps"))
            };
            let informer = factory.informer(own);
            kept.lock().insert(index, informer.store().clone());
            let controller = DynamicController::new("maps", informer, ControllerOptions::default());
            controller.reconcile(Note {
                name: name.clone(),
                log: log.clone(),
            })
        });
        let sharded = sharded.unwrap();
        let (stop, stopped) = oneshot::channel();
        let held = sharded.held();
        let task = tokio::spawn(sharded.run(async { drop(stopped.await) }));
        Self {
            held,
            stores,
            stop,
            task,
        }
    }

    fn held(&self) -> BTreeSet<u32> {
        self.held.borrow().clone()
    }

    /// The objects in the stores of the shards it holds.
    fn objects(&self) -> usize {
        let (held, stores) = (self.held(), self.stores.lock());
        let own = stores.iter().filter(|(shard, _)| held.contains(shard));
        own.map(|(_, store)| store.snapshot().len()).sum()
    }

    /// Ends without a word: its Leases stay until they expire.
    async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn leave(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }
}

struct Note {
    name: String,
    log: Log,
}

impl Reconciler for Note {
    type Error = Infallible;

    async fn reconcile(&self, request: Request) -> Result<Action, Infallible> {
        self.log
            .lock()
            .push((request.key.name().to_owned(), self.name.clone()));
        Ok(Action::Done)
    }
}

/// Every shard is held once; returns how many each replica has.
fn shares(replicas: &[&Replica]) -> Vec<usize> {
    let held: Vec<BTreeSet<u32>> = replicas.iter().map(|replica| replica.held()).collect();
    let all: BTreeSet<u32> = held.iter().flatten().copied().collect();
    let sizes: Vec<usize> = held.iter().map(BTreeSet::len).collect();
    assert_eq!(
        (all.len(), sizes.iter().sum()),
        (SHARDS as usize, SHARDS as usize),
        "{held:?}"
    );
    sizes
}

async fn full(feature_gates: &str) -> TestCluster {
    let options = TestOptions {
        start_time: Some(START.parse().unwrap()),
        paused: true,
        feature_gates: feature_gates.parse().unwrap(),
        ..TestOptions::default()
    };
    let cluster = TestCluster::start_with(options).await.unwrap();
    for number in 0..OBJECTS {
        create_map(&cluster, &format!("map-{number:02}")).await;
    }
    cluster
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test]
async fn replicas_divide_objects_and_memory_and_take_over_from_each_other() {
    divide_and_take_over("").await;
}

#[tokio::test]
async fn replicas_take_over_from_each_other_on_a_server_with_sharded_watches() {
    divide_and_take_over(SHARDED_WATCHES).await;
}

async fn divide_and_take_over(feature_gates: &str) {
    let cluster = full(feature_gates).await;
    let (log, start) = (Log::default(), |name: &str, log: &Log| {
        Replica::start(&cluster, name, log)
    });
    let (one, two, three) = (start("one", &log), start("two", &log), start("three", &log));
    cluster.advance(seconds(60)).await;
    assert_eq!(shares(&[&one, &two, &three]), [4, 4, 4]);
    let objects = [one.objects(), two.objects(), three.objects()];
    // kube-root-ca.crt may be there as well.
    assert_eq!(objects.iter().sum::<usize>(), names(&maps(&cluster)).await.len());
    assert!(
        objects.iter().all(|objects| *objects < OBJECTS / 2),
        "{objects:?}"
    );
    let done: BTreeSet<String> = log.lock().iter().map(|(key, _)| key.clone()).collect();
    assert!(done.len() >= OBJECTS, "{}", done.len());

    two.crash().await;
    cluster.advance(seconds(10)).await;
    assert_eq!(
        one.held().len() + three.held().len(),
        8,
        "its Leases have not expired"
    );
    log.lock().clear();
    cluster.advance(seconds(60)).await;
    assert_eq!(shares(&[&one, &three]), [6, 6]);
    assert!(
        !log.lock().is_empty(),
        "the objects of the shards taken over are reconciled"
    );

    let two = start("two", &log);
    cluster.advance(seconds(60)).await;
    assert_eq!(shares(&[&one, &two, &three]), [4, 4, 4]);

    let stopping = tokio::spawn(three.leave());
    cluster.advance(seconds(12)).await;
    stopping.await.unwrap();
    cluster.advance(seconds(5)).await;
    assert_eq!(shares(&[&one, &two]), [6, 6]);
    one.crash().await;
    two.crash().await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_object_that_changes_is_reconciled_by_the_holder_of_its_shard_only() {
    // To the informer of every shard.
    assert_eq!(events_of_changes("").await, OBJECTS * SHARDS as usize);
}

#[tokio::test]
async fn a_server_with_sharded_watches_sends_a_change_to_the_holder_of_its_shard_only() {
    assert_eq!(events_of_changes(SHARDED_WATCHES).await, OBJECTS);
}

/// Changes every object once; returns how many events the server has sent.
async fn events_of_changes(feature_gates: &str) -> usize {
    let cluster = full(feature_gates).await;
    let log = Log::default();
    let replicas = ["one", "two"].map(|name| Replica::start(&cluster, name, &log));
    cluster.advance(seconds(60)).await;
    log.lock().clear();
    let before = sent_events(&cluster).await;
    for number in 0..OBJECTS {
        let patch = serde_json::json!({"data": {"changed": "yes"}});
        let name = format!("map-{number:02}");
        maps(&cluster)
            .patch(&name, watchkeeper_meta::PatchKind::Merge, &patch)
            .await
            .unwrap();
    }
    cluster.run_until_idle().await;
    let log = std::mem::take(&mut *log.lock());
    let pairs: BTreeSet<&(String, String)> = log.iter().collect();
    assert_eq!(pairs.len(), OBJECTS, "each by one replica");
    let by_one = pairs.iter().filter(|(_, replica)| replica == "one").count();
    assert!((1..OBJECTS).contains(&by_one));
    let sent = sent_events(&cluster).await - before;
    for replica in replicas {
        replica.crash().await;
    }
    cluster.stop().await;
    sent
}

/// The number of events of config maps that the server has sent to watches.
async fn sent_events(cluster: &TestCluster) -> usize {
    let text = cluster.client().get_raw("/metrics", 10 << 20).await.unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("apiserver_watch_events_total{"));
    let of_maps = lines.filter(|line| line.contains("configmaps") || line.contains("ConfigMap"));
    of_maps
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok())
        .sum()
}

#[tokio::test]
async fn a_fork_has_the_feature_gates_of_its_origin() {
    let half = watchkeeper_meta::ShardSelector::part(watchkeeper_meta::ShardField::Uid, 0, 2).unwrap();
    let half = half.to_string();
    let query = half.replace(' ', "%20").replace('|', "%7C");
    let path = format!("/api/v1/namespaces/default/configmaps?shardSelector={query}");
    for (gates, told) in [(SHARDED_WATCHES, Some(half.as_str())), ("", None)] {
        let cluster = full(gates).await;
        // A fork of a fork, too.
        let fork = cluster.fork().await.unwrap();
        let later = fork.fork().await.unwrap();
        for cluster in [&cluster, &fork, &later] {
            let list = cluster.client().get_raw(&path, 10 << 20).await.unwrap();
            let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
            assert_eq!(
                list["metadata"]["shardInfo"]["selector"].as_str(),
                told,
                "{gates}"
            );
        }
        for cluster in [later, fork, cluster] {
            cluster.stop().await;
        }
    }
}
