//! Stages in KWOK's format, and failures as data, with paused time.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_simulator::SimulatorOptions;
use watchkeeper_simulator::scenario::Script;
use watchkeeper_testing::{TestCluster, TestOptions};

use crate::support::{START, api, get, names};

const STAGES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .spec.nodeName, operator: Exists}
    - {key: .status.podIP, operator: DoesNotExist}
  delay:
    durationMilliseconds: 60000
    durationFrom: {expressionFrom: '.metadata.annotations["example.com/delay"]'}
  next:
    event: {type: Normal, reason: Started, message: All containers run}
    finalizers: {add: [{value: example.com/kept}]}
    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      podIP: {{ PodIPWith .spec.nodeName false .metadata.uid | Quote }}
      startTime: {{ $now | Quote }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: true
        restartCount: 0
      {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
  delay: {durationMilliseconds: 5000}
  next: {finalizers: {empty: true}, delete: true}
"#;

async fn cluster(script: &str, nodes: usize) -> TestCluster {
    let script = Script::read(script.as_bytes()).unwrap();
    let simulator = SimulatorOptions {
        nodes,
        stages: script.stages,
        scenario: script.scenario,
        ..SimulatorOptions::default()
    };
    let options = TestOptions {
        start_time: Some(START.parse().unwrap()),
        paused: true,
        simulator: Some(simulator),
        ..TestOptions::default()
    };
    TestCluster::start_with(options).await.unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test]
async fn pods_go_through_the_stages_of_a_file() {
    let cluster = cluster(STAGES, 1).await;
    let pods = api(&cluster, "", "pods");
    let pod = |name: &str, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "one", "image": "i:1"}, {"name": "two", "image": "i:2"}]}})
    };
    pods.create(&pod("slow", json!({}))).await.unwrap();
    pods.create(&pod("quick", json!({"example.com/delay": "2s"})))
        .await
        .unwrap();
    cluster.advance(seconds(10)).await;
    let phase = async |name: &str| get(&pods, name).await["status"]["phase"].clone();
    assert_eq!(
        (phase("slow").await, phase("quick").await),
        (json!("Pending"), json!("Running"))
    );
    cluster.advance(seconds(60)).await;
    let slow = get(&pods, "slow").await;
    assert_eq!(slow["status"]["containerStatuses"][1]["image"], "i:2");
    assert_eq!(slow["metadata"]["finalizers"], json!(["example.com/kept"]));
    assert!(
        slow["status"]["podIP"]
            .as_str()
            .is_some_and(|address| address.starts_with("10.")),
        "{slow}"
    );
    let events = api(&cluster, "", "events").list().await.unwrap();
    let told = events
        .items
        .iter()
        .filter(|event| event.to_value().unwrap()["reason"] == "Started");
    assert_eq!(told.count(), 2);
    pods.delete("slow").await.unwrap();
    cluster.advance(seconds(4)).await;
    assert_eq!(names(&pods).await, ["quick", "slow"]);
    cluster.advance(seconds(2)).await;
    assert_eq!(names(&pods).await, ["quick"]);
    cluster.stop().await;
}

/// The status of a node's condition Ready, and the keys of its taints.
async fn node(cluster: &TestCluster, name: &str) -> (String, Vec<String>) {
    let node = get(&api(cluster, "", "nodes"), name).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions
        .filter(|condition| condition["type"] == "Ready")
        .map(|ready| text(&ready["status"]))
        .collect();
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    (ready, taints.map(|taint| text(&taint["key"])).collect())
}

#[tokio::test]
async fn a_zone_is_unreachable_for_its_time_and_comes_back() {
    let outage = "{apiVersion: simulator.watchkeeper.dev/v1, kind: Scenario, steps: [{at: 1m, for: 2m, zoneOutage: {zone: simulated-a}}]}";
    let cluster = cluster(outage, 3).await;
    cluster.advance(seconds(30)).await;
    let up = ("True".to_owned(), Vec::new());
    assert_eq!(node(&cluster, "node-1").await, up);
    cluster.advance(seconds(60)).await;
    let unreachable = "node.kubernetes.io/unreachable".to_owned();
    assert_eq!(
        node(&cluster, "node-1").await,
        ("Unknown".to_owned(), vec![unreachable.clone(), unreachable])
    );
    assert_eq!(node(&cluster, "node-2").await, up);
    cluster.advance(seconds(120)).await;
    assert_eq!(node(&cluster, "node-1").await, up);
    cluster.stop().await;
}

#[tokio::test]
async fn preempted_nodes_are_gone_and_come_back() {
    let preemption = "{apiVersion: simulator.watchkeeper.dev/v1, kind: Scenario, steps: [{at: 1m, for: 2m, preemption: {every: 2m, notice: 30s}}]}";
    let cluster = cluster(preemption, 2).await;
    let nodes = api(&cluster, "", "nodes");
    cluster.advance(seconds(75)).await;
    assert_eq!(
        node(&cluster, "node-1").await.1,
        ["simulator.watchkeeper/preemption"]
    );
    cluster.advance(seconds(45)).await;
    assert!(names(&nodes).await.is_empty());
    cluster.advance(seconds(90)).await;
    assert_eq!(names(&nodes).await, ["node-1", "node-2"]);
    cluster.stop().await;
}

#[tokio::test]
async fn crashing_pods_are_restarted_and_slow_images_take_their_time() {
    let bad = "{apiVersion: simulator.watchkeeper.dev/v1, kind: Scenario, steps: [
        {for: 1h, slowImagePulls: {takes: 40s}}, {at: 2m, for: 1h, crashLoops: {exitCode: 137, after: 5s}}]}";
    let cluster = cluster(bad, 1).await;
    let pods = api(&cluster, "", "pods");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&pod).await.unwrap();
    cluster.advance(seconds(20)).await;
    assert_eq!(get(&pods, "a").await["status"]["phase"], "Pending");
    cluster.advance(seconds(40)).await;
    assert_eq!(get(&pods, "a").await["status"]["phase"], "Running");
    pods.delete("a").await.unwrap();
    cluster.advance(seconds(120)).await;
    pods.create(&pod).await.unwrap();
    cluster.advance(seconds(300)).await;
    let status = get(&pods, "a").await["status"]["containerStatuses"][0].clone();
    assert!(status["restartCount"].as_u64() > Some(0), "{status}");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 137, "{status}");
    cluster.stop().await;
}
