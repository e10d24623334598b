//! Daemon sets: added and removed nodes, and template changes.

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::support::{Cluster, all_run, new_image, pods, resource, selector, template};

fn daemon_sets() -> Resource {
    resource("apps", "daemonsets")
}

fn nodes() -> Resource {
    resource("", "nodes")
}

fn daemon_set(strategy: Value) -> Value {
    json!({
        "metadata": {"name": "log"},
        "spec": {"selector": selector("log"), "template": template("log", "log:1"), "updateStrategy": strategy},
    })
}

fn is_settled(set: &Value, nodes: u64) -> bool {
    let status = &set["status"];
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberReady",
        "numberAvailable",
    ];
    status["observedGeneration"] == set["metadata"]["generation"]
        && counts
            .iter()
            .all(|count| status[count].as_u64().unwrap_or_default() == nodes)
        && status["numberMisscheduled"] == 0
        && status["numberUnavailable"].as_u64().unwrap_or_default() == 0
}

#[tokio::test(start_paused = true)]
async fn every_node_has_a_pod_as_nodes_come_and_go() {
    let cluster = Cluster::start().await;
    cluster.create(&daemon_sets(), daemon_set(json!({}))).await;
    cluster
        .until_one(&daemon_sets(), "log", "both nodes log", |set| is_settled(set, 2))
        .await;
    cluster
        .create(&nodes(), json!({"metadata": {"name": "extra"}}))
        .await;
    cluster
        .until_one(&daemon_sets(), "log", "the third node logs", |set| {
            is_settled(set, 3)
        })
        .await;
    cluster.delete(&nodes(), "node-1").await;
    cluster
        .until_one(&daemon_sets(), "log", "two nodes log", |set| is_settled(set, 2))
        .await;
    let on = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    let left = |pods: &[Value]| {
        let mut nodes: Vec<String> = pods.iter().map(on).collect();
        nodes.sort();
        nodes == ["extra", "node-2"]
    };
    cluster.until(&pods(), "pods are where nodes are", left).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_outside_the_selector_get_no_pod() {
    let cluster = Cluster::start().await;
    let mut set = daemon_set(json!({}));
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    cluster.create(&daemon_sets(), set).await;
    let label = |disk: &str| json!({"metadata": {"labels": {"disk": disk}}});
    cluster.patch(&nodes(), "node-2", label("ssd")).await;
    cluster
        .until_one(&daemon_sets(), "log", "one node logs", |set| is_settled(set, 1))
        .await;
    cluster.patch(&nodes(), "node-2", label("tape")).await;
    cluster
        .until_one(&daemon_sets(), "log", "no node logs", |set| is_settled(set, 0))
        .await;
    cluster
        .until(&pods(), "no pod is left", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_template_reaches_every_node() {
    let cluster = Cluster::start().await;
    for (name, strategy) in [
        ("replacing", json!({"rollingUpdate": {"maxUnavailable": 1}})),
        (
            "surging",
            json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
        ),
    ] {
        cluster.create(&daemon_sets(), daemon_set(strategy)).await;
        cluster
            .until_one(&daemon_sets(), "log", name, |set| is_settled(set, 2))
            .await;
        cluster.patch(&daemon_sets(), "log", new_image("log:2")).await;
        cluster
            .until_one(&daemon_sets(), "log", name, |set| is_settled(set, 2))
            .await;
        cluster
            .until(&pods(), name, |pods| all_run(pods, 2, "log:2"))
            .await;
        cluster.delete(&daemon_sets(), "log").await;
        cluster
            .until(&pods(), "no pod is left", <[Value]>::is_empty)
            .await;
    }
    cluster.stop().await;
}
