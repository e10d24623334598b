//! Two processes that share the work.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use watchkeeper_client::Client;
use watchkeeper_manager::Manager;
use watchkeeper_meta::Status;
use watchkeeper_runtime::controller::DynamicController;
use watchkeeper_runtime::factory::{Factory, Selection};
use watchkeeper_runtime::sharding::{ShardOptions, ShardPart, ShardedController};
use watchkeeper_server::{RequestMatch, Verb};
use watchkeeper_testing::TestCluster;

use crate::support::*;

const SHARDS: u32 = 4;
const OBJECTS: usize = 24;

/// The config maps in `default`, in shards.
fn sharded(client: &Client, identity: &str, told: mpsc::UnboundedSender<String>) -> ShardedController {
    let factory = Factory::new(client.clone(), Default::default());
    let options = ShardOptions::new("maps", identity, SHARDS);
    let build = move |shard| {
        let selection = Selection {
            namespaces: vec!["default".to_owned()],
            shard: Some(ShardPart::Own(shard)),
            ..Selection::all(maps_resource())
        };
        let controller = DynamicController::new("map", factory.informer(selection), Default::default());
        controller.reconcile(Telling(told.clone()))
    };
    ShardedController::new(client, options, build).unwrap()
}

/// A process, the shards it holds, and the objects it reconciles.
struct Replica {
    process: Process,
    held: watch::Receiver<BTreeSet<u32>>,
    reconciled: mpsc::UnboundedReceiver<String>,
}

impl Replica {
    async fn start(client: &Client, identity: &str) -> Self {
        let (told, reconciled) = mpsc::unbounded_channel();
        let controller = sharded(client, identity, told);
        let held = controller.held();
        let process = Process::start(Manager::new(client.clone()).sharded(controller)).await;
        Self {
            process,
            held,
            reconciled,
        }
    }

    async fn holds(&mut self, count: usize) {
        // Time is paused: it passes while all wait.
        let enough = self.held.wait_for(|held| held.len() == count);
        let enough = tokio::time::timeout(Duration::from_secs(600), enough).await;
        enough.expect("it never held so many").expect("it runs");
    }

    /// The next objects it reconciles, without repetition.
    async fn reconciles(&mut self, count: usize) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        while names.len() < count {
            names.extend(
                soon(self.reconciled.recv())
                    .await
                    .filter(|name| name.starts_with("map-")),
            );
        }
        names
    }
}

#[tokio::test(start_paused = true)]
async fn managers_share_a_sharded_controller_and_hand_over_when_they_stop() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    for number in 0..OBJECTS {
        create_map(client, &format!("map-{number:02}")).await;
    }
    let mut one = Replica::start(client, "one").await;
    one.holds(SHARDS as usize).await;
    assert_eq!(
        one.reconciles(OBJECTS).await.len(),
        OBJECTS,
        "alone it does everything"
    );

    let mut two = Replica::start(client, "two").await;
    two.holds(SHARDS as usize / 2).await;
    one.holds(SHARDS as usize / 2).await;
    one.process.stop().await.unwrap();
    two.holds(SHARDS as usize).await;
    assert_eq!(
        two.reconciles(OBJECTS).await.len(),
        OBJECTS,
        "what the other had is reconciled"
    );
    two.process.stop().await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_metrics_tell_the_shards_of_a_replica() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let (told, _reconciled) = mpsc::unbounded_channel();
    let controller = sharded(client, "one", told);
    let mut held = controller.held();
    let manager = Manager::new(client.clone()).sharded(controller);
    let metrics = manager.registry().clone();
    let none = "sharded_controller_shards_held{name=\"maps\"} 0";
    assert!(metrics.render().contains(none), "{}", metrics.render());
    let process = Process::start(manager).await;
    soon(held.wait_for(|held| held.len() == SHARDS as usize))
        .await
        .unwrap();
    let all = "sharded_controller_shards_held{name=\"maps\"} 4";
    assert!(metrics.render().contains(all), "{}", metrics.render());
    process.stop().await.unwrap();
    cluster.stop().await;
}

/// The value of the only sample with this name and these labels.
fn sample(text: &str, series: &str) -> u64 {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let (value, another) = (values.next(), values.next());
    assert_eq!(another, None, "{series} is there twice:\n{text}");
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {series} in\n{text}"))
}

#[tokio::test(start_paused = true)]
async fn all_shards_of_a_replica_are_measured_together() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    for number in 0..OBJECTS {
        create_map(client, &format!("map-{number:02}")).await;
    }
    let (told, mut reconciled) = mpsc::unbounded_channel();
    let controller = sharded(client, "one", told);
    let mut held = controller.held();
    let manager = Manager::new(client.clone()).sharded(controller);
    let metrics = manager.registry().clone();
    let success = "controller_runtime_reconcile_total{controller=\"maps\",result=\"success\"}";
    let adds = "workqueue_adds_total{name=\"maps\"}";
    let workers = "controller_runtime_max_concurrent_reconciles{controller=\"maps\"}";
    for series in [success, adds, workers, "workqueue_depth{name=\"maps\"}"] {
        assert_eq!(sample(&metrics.render(), series), 0, "without a shard");
    }

    let process = Process::start(manager).await;
    let all = tokio::time::timeout(
        Duration::from_secs(600),
        held.wait_for(|held| held.len() == SHARDS as usize),
    );
    all.await.unwrap().unwrap();
    for _ in 0..OBJECTS {
        soon(reconciled.recv()).await.unwrap();
    }
    let text = eventually(async || {
        let text = metrics.render();
        (sample(&text, success) >= OBJECTS as u64).then_some(text)
    })
    .await;
    assert!(sample(&text, adds) >= OBJECTS as u64, "{text}");
    assert_eq!(
        sample(&text, workers),
        4 * u64::from(SHARDS),
        "four workers per shard"
    );

    let mut two = Replica::start(client, "two").await;
    two.holds(SHARDS as usize / 2).await;
    let text = eventually(async || {
        let text = metrics.render();
        (sample(&text, workers) == 2 * u64::from(SHARDS)).then_some(text)
    })
    .await;
    assert!(
        sample(&text, success) >= OBJECTS as u64,
        "a counter never falls: {text}"
    );
    process.stop().await.unwrap();
    assert_eq!(sample(&metrics.render(), workers), 0);
    two.process.stop().await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn a_replica_is_ready_without_a_shard() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let faults = cluster.server().faults().clone();
    let unavailable = Status::service_unavailable("not now");
    for verb in [Verb::Get, Verb::List, Verb::Create] {
        let leases = RequestMatch::new(verb, "leases");
        faults.answer_next(leases, u32::MAX, unavailable.clone()).unwrap();
    }
    let (told, _reconciled) = mpsc::unbounded_channel();
    let controller = sharded(client, "one", told);
    let mut held = controller.held();
    let (probes, address) = socket();
    let manager = Manager::new(client.clone()).probes(probes).sharded(controller);
    let metrics = manager.registry().clone();
    let process = Process::start(manager).await;
    let ready = (
        200,
        "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n".to_owned(),
    );
    let page = eventually(async || http_get(address, "/readyz?verbose").await).await;
    assert_eq!(page, ready);
    let shards = |held: u32| format!("sharded_controller_shards_held{{name=\"maps\"}} {held}");
    let all = format!("sharded_controller_shards{{name=\"maps\"}} {SHARDS}");
    assert!(metrics.render().contains(&all), "{}", metrics.render());
    assert!(metrics.render().contains(&shards(0)), "{}", metrics.render());
    faults.clear();
    soon(held.wait_for(|held| held.len() == SHARDS as usize))
        .await
        .unwrap();
    assert!(metrics.render().contains(&shards(SHARDS)), "{}", metrics.render());
    assert_eq!(http_get(address, "/readyz?verbose").await, Some(ready));
    process.stop().await.unwrap();
    cluster.stop().await;
}
