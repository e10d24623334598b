//! kube's controller with controlled time and injected faults: on a cluster, and in a simulation.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use watchkeeper_server::{Action as Fault, Cut, Flow, RequestMatch, Rule, Verb};
use watchkeeper_testing::simulation::{Process, invariants};
use watchkeeper_testing::{Simulation, TestCluster, TestOptions};

use crate::object;

/// The delay before a failed reconcile is retried.
const RETRY: Duration = Duration::from_secs(30);

/// Creates a secret of the same name for each config map.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let secrets = Api::<Secret>::default_namespaced(Client::clone(&client));
    let secret: Secret = object(json!({
        "metadata": {"name": map.name_any(), "ownerReferences": [map.controller_owner_ref(&())]},
    }));
    match secrets.create(&PostParams::default(), &secret).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Action::await_change()),
        created => created.map(|_| Action::await_change()),
    }
}

/// Runs kube's controller forever.
async fn control(client: Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    Controller::new(maps, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(RETRY), Arc::new(client))
        .for_each(async |_| {})
        .await;
}

async fn paused() -> TestCluster {
    let options = TestOptions {
        paused: true,
        ..TestOptions::default()
    };
    TestCluster::start_with(options).await.unwrap()
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

#[tokio::test]
async fn a_lost_answer_is_retried_after_the_delay() {
    let cluster = paused().await;
    let creates = RequestMatch::new(Verb::Create, "secrets");
    let lost = Fault::Cut(Cut::BeforeAnswer);
    cluster.faults().inject(Rule::new(creates.clone(), lost)).unwrap();
    // Records later requests without changing them.
    let asked = Rule::always(creates, Fault::Delay(Duration::ZERO));
    cluster.faults().inject(asked).unwrap();
    let running = tokio::spawn(control(cluster.kube_client()));
    cluster.load(&map("a")).await.unwrap();
    cluster.run_until_idle().await;
    let created = |cluster: &TestCluster| cluster.writes().of_kind("Secret").len();
    let tried = |cluster: &TestCluster| cluster.faults().fired().len();
    assert_eq!((created(&cluster), tried(&cluster)), (1, 1));
    cluster.advance(RETRY - Duration::from_secs(1)).await;
    assert_eq!(tried(&cluster), 1);
    cluster.advance(Duration::from_secs(2)).await;
    assert_eq!((created(&cluster), tried(&cluster)), (1, 2));
    // The second answer, "already exists", arrived: there is no third attempt.
    cluster.advance(10 * RETRY).await;
    assert_eq!(tried(&cluster), 2);
    running.abort();
    cluster.stop().await;
}

#[tokio::test]
async fn a_cut_watch_misses_nothing() {
    let cluster = paused().await;
    let running = tokio::spawn(control(cluster.kube_client()));
    cluster.load(&map("a")).await.unwrap();
    cluster.run_until_idle().await;
    let watches = RequestMatch::new(Verb::Watch, "configmaps");
    assert_eq!(cluster.faults().set_flow(&watches, Flow::Cut), 1);
    // New watches are refused for a while.
    let down = Rule::always(watches, Fault::Forbid);
    let down = cluster.faults().inject(down).unwrap();
    cluster.load(&map("b")).await.unwrap();
    cluster.advance(Duration::from_secs(5)).await;
    assert_eq!(cluster.writes().of_kind("Secret").len(), 1);
    cluster.faults().remove(down);
    // Longer than kube's backoff.
    cluster.advance(Duration::from_secs(120)).await;
    let names: Vec<_> = cluster.writes().of_kind("Secret").0;
    let names: Vec<_> = names.iter().map(|write| write.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    running.abort();
    cluster.stop().await;
}

#[test]
fn a_simulation_runs_kube_controllers() {
    let simulation = Simulation::new()
        .controller("kube", |process: Process| control(process.kube_client()))
        .workload(|user, mut rng| async move {
            let maps = Api::<ConfigMap>::default_namespaced(user.kube_client());
            for name in ["a", "b", "c"] {
                let map: ConfigMap = object(json!({"metadata": {"name": name}}));
                maps.create(&PostParams::default(), &map).await.unwrap();
                tokio::time::sleep(Duration::from_millis(rng.u64(..5000))).await;
            }
        })
        .always("never two secrets", invariants::at_most_one_per_owner("Secret"))
        .eventually("every map has its secret", |state| {
            let has_secret = |map: &Value| {
                let name = map["metadata"]["name"].as_str().unwrap();
                state.get("Secret", "default", name).is_some()
            };
            match state.all("ConfigMap").into_iter().all(has_secret) {
                true => Ok(()),
                false => Err("one has none".to_owned()),
            }
        });
    simulation.check(30);
    let crash = "1: crash kube at write 2 for 10s".parse().unwrap();
    let trace = simulation.run(&crash).trace.to_string();
    assert!(trace.contains("kube#1         crashes"), "{trace}");
    assert!(trace.contains("kube#2         create Secret"), "{trace}");
}
