//! Pods on their nodes: init containers, sidecars, gates, deadlines.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_meta::{AttachOptions, ExecOptions};
use watchkeeper_simulator::SimulatorOptions;

use crate::simulator::events::until_told;
use crate::simulator::support::{Cluster, holds, pods, quick};

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn condition(pod: &Value, kind: &str) -> (String, String, String) {
    let conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let condition = conditions.into_iter().find(|condition| condition["type"] == kind);
    let condition = condition.unwrap_or_default();
    let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_before_the_others() {
    let cluster = Cluster::start().await;
    let init = json!([
        {"name": "one", "image": "init:1", "command": ["sleep", "10"]},
        {"name": "side", "image": "side:1", "restartPolicy": "Always"},
        {"name": "two", "image": "init:2", "command": ["sleep", "10"]},
    ]);
    cluster
        .create(&pods(), pod("web", json!({"initContainers": init})))
        .await;
    let state = |pod: &Value, place: usize, state: &str| {
        pod["status"]["initContainerStatuses"][place]["state"][state].is_object()
    };
    let first = |pod: &Value| state(pod, 0, "running") && state(pod, 2, "waiting");
    cluster.until_one(&pods(), "web", "the first runs", first).await;
    let web = cluster.get(&pods(), "web").await;
    assert_eq!(web["status"]["phase"], "Pending");
    let wanted = (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [one two]",
    );
    let found = condition(&web, "Initialized");
    assert_eq!((found.0.as_str(), found.1.as_str(), found.2.as_str()), wanted);
    let second =
        |pod: &Value| state(pod, 0, "terminated") && state(pod, 1, "running") && state(pod, 2, "running");
    cluster
        .until_one(&pods(), "web", "then the sidecar and the second", second)
        .await;
    cluster
        .until_one(&pods(), "web", "then all others", |pod| holds(pod, "Ready"))
        .await;
    let web = cluster.get(&pods(), "web").await;
    let statuses = &web["status"]["initContainerStatuses"];
    assert_eq!(statuses[2]["state"]["terminated"]["reason"], "Completed");
    assert!(statuses[1]["state"]["running"].is_object(), "the sidecar goes on");
    let id = web["status"]["containerStatuses"][0]["containerID"]
        .as_str()
        .unwrap();
    assert_eq!(id.len(), "watchkeeper://".len() + 64);
    until_told(
        &cluster,
        "kubelet",
        "Pod/web",
        "Pulled",
        "Container image \"init:2\"",
    )
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_init_container_fails_never_starts() {
    let cluster = Cluster::start().await;
    let init = json!([{"name": "bad", "image": "init:1", "command": ["false"]}]);
    let never = json!({"initContainers": init, "restartPolicy": "Never"});
    cluster.create(&pods(), pod("never", never)).await;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    cluster.until_one(&pods(), "never", "it has failed", failed).await;
    let never = cluster.get(&pods(), "never").await;
    assert!(never["status"]["containerStatuses"][0]["state"]["waiting"].is_object());

    cluster
        .create(&pods(), pod("again", json!({"initContainers": init})))
        .await;
    let again = |pod: &Value| {
        let bad = &pod["status"]["initContainerStatuses"][0];
        bad["restartCount"].as_u64() >= Some(3) && bad["lastState"]["terminated"]["exitCode"] == 1
    };
    cluster
        .until_one(&pods(), "again", "it is tried again", again)
        .await;
    assert_eq!(cluster.get(&pods(), "again").await["status"]["phase"], "Pending");
    until_told(
        &cluster,
        "kubelet",
        "Pod/again",
        "BackOff",
        "Back-off restarting failed container bad",
    )
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn containers_end_independently_and_sidecars_last() {
    let cluster = Cluster::start().await;
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "side", "image": "side:1", "restartPolicy": "Always"}],
        "containers": [
            {"name": "short", "image": "job:1", "command": ["sh", "-c", "sleep 5; exit 3"]},
            {"name": "long", "image": "job:1", "command": ["sleep", "60"]},
        ],
    });
    cluster.create(&pods(), pod("work", spec)).await;
    let half = |pod: &Value| {
        let statuses = &pod["status"]["containerStatuses"];
        statuses[0]["state"]["terminated"]["exitCode"] == 3 && statuses[1]["state"]["running"].is_object()
    };
    cluster.until_one(&pods(), "work", "one has ended", half).await;
    assert_eq!(cluster.get(&pods(), "work").await["status"]["phase"], "Running");
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    cluster
        .until_one(&pods(), "work", "both have ended", failed)
        .await;
    let work = cluster.get(&pods(), "work").await;
    assert!(work["status"]["initContainerStatuses"][0]["state"]["terminated"].is_object());
    assert_eq!(condition(&work, "Ready").1, "PodFailed");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_ready_when_its_readiness_gates_are_true() {
    let cluster = Cluster::start().await;
    let gates = json!({"readinessGates": [{"conditionType": "example.com/open"}]});
    cluster.create(&pods(), pod("web", gates)).await;
    cluster
        .until_one(&pods(), "web", "its containers are ready", |pod| {
            holds(pod, "ContainersReady")
        })
        .await;
    let web = cluster.get(&pods(), "web").await;
    let (status, reason, message) = condition(&web, "Ready");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "ReadinessGatesNotReady")
    );
    assert_eq!(
        message,
        "corresponding condition of pod readiness gate \"example.com/open\" does not exist."
    );
    let mut conditions = web["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "example.com/open", "status": "True"}));
    let api = cluster.api(&pods()).subresource("status");
    let open = json!({"status": {"conditions": conditions}});
    api.patch("web", watchkeeper_meta::PatchKind::Merge, &open)
        .await
        .unwrap();
    cluster
        .until_one(&pods(), "web", "it is ready", |pod| holds(pod, "Ready"))
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_active_deadline_has_failed() {
    let cluster = Cluster::start().await;
    cluster
        .create(&pods(), pod("web", json!({"activeDeadlineSeconds": 30})))
        .await;
    let failed =
        |pod: &Value| pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "DeadlineExceeded";
    cluster.until_one(&pods(), "web", "it has failed", failed).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_has_its_grace_period() {
    let cluster = Cluster::start_with(SimulatorOptions {
        stop_time: Duration::from_secs(1000),
        ..quick()
    })
    .await;
    let spec = json!({"terminationGracePeriodSeconds": 40});
    cluster.create(&pods(), pod("web", spec)).await;
    cluster
        .until_one(&pods(), "web", "it runs", |pod| holds(pod, "Ready"))
        .await;
    let before = tokio::time::Instant::now();
    cluster.delete(&pods(), "web").await;
    until_told(&cluster, "kubelet", "Pod/web", "Killing", "Stopping container c").await;
    cluster.until(&pods(), "it is gone", <[Value]>::is_empty).await;
    let took = before.elapsed().as_secs();
    assert!((39..=45).contains(&took), "{took}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn commands_and_connections_are_refused_because_pods_are_simulated() {
    let cluster = Cluster::start().await;
    cluster.create(&pods(), pod("web", json!({}))).await;
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    cluster.until_one(&pods(), "web", "it runs", runs).await;
    let api = cluster.api(&pods());
    let exec = ExecOptions {
        command: vec!["ls".to_owned()],
        ..ExecOptions::default()
    };
    let refused = [
        (
            api.exec("web", &exec).await.err(),
            "no command can be executed in it",
        ),
        (
            api.attach("web", &AttachOptions::default()).await.err(),
            "there is nothing to attach to",
        ),
        (
            api.port_forward("web", 80).await.err(),
            "nothing listens on its ports",
        ),
    ];
    for (error, why) in refused {
        let told = error.unwrap().to_string();
        let wanted = format!("pod web is simulated: no process runs in it, so {why}");
        assert!(told.contains(&wanted), "{told}");
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_pod_describes_its_simulated_life() {
    let cluster = Cluster::start().await;
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "web:1", "command": ["false"]}]});
    cluster.create(&pods(), pod("web", spec)).await;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    cluster.until_one(&pods(), "web", "it has failed", failed).await;
    let api = cluster.api(&pods());
    let log = api.log("web").await.unwrap().collect(1 << 20).await.unwrap();
    let log = String::from_utf8(log.to_vec()).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("pod default/web on node-"), "{log}");
    assert!(lines[0].contains("is simulated: no process runs in it"), "{log}");
    assert_eq!(lines[2], "container c ended with exit code 1 (Error)");
    cluster.stop().await;
}
