//! Deployments, and their state in terms of `kubectl rollout`.

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::events::until_told;
use crate::simulator::support::{Cluster, all_run, new_image, pods, resource, selector, template};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn deployments() -> Resource {
    resource("apps", "deployments")
}

fn replica_sets() -> Resource {
    resource("apps", "replicasets")
}

fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 60,
            "revisionHistoryLimit": 2,
            "selector": selector("web"),
            "template": template("web", "web:1"),
        },
    })
}

/// True if a rollout is complete, as in `kubectl rollout status`.
fn is_rolled_out(deployment: &Value, replicas: u32) -> bool {
    let status = &deployment["status"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ]
        .iter()
        .all(|count| status[count] == replicas)
        && reason(deployment) == "NewReplicaSetAvailable"
}

fn reason(deployment: &Value) -> &str {
    let mut conditions = deployment["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let progressing = conditions.find(|condition| condition["type"] == "Progressing");
    progressing
        .and_then(|condition| condition["reason"].as_str())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_created_rolled_out_and_deleted() {
    let cluster = Cluster::start().await;
    cluster.create(&deployments(), deployment(3)).await;
    cluster
        .until_one(&deployments(), "web", "three pods run", |web| {
            is_rolled_out(web, 3)
        })
        .await;
    cluster.patch(&deployments(), "web", new_image("web:2")).await;
    cluster
        .until(&pods(), "three new pods run", |pods| all_run(pods, 3, "web:2"))
        .await;
    cluster.delete(&deployments(), "web").await;
    cluster
        .until(&pods(), "no pods are left", <[Value]>::is_empty)
        .await;
    cluster
        .until(&replica_sets(), "no sets are left", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reused_template_becomes_the_latest_revision_and_history_is_limited() {
    let cluster = Cluster::start().await;
    cluster.create(&deployments(), deployment(2)).await;
    for (image, number) in [("web:2", "2"), ("web:1", "3"), ("web:3", "4"), ("web:4", "5")] {
        cluster.patch(&deployments(), "web", new_image(image)).await;
        let rolled =
            |web: &Value| is_rolled_out(web, 2) && web["metadata"]["annotations"][REVISION] == number;
        cluster.until_one(&deployments(), "web", image, rolled).await;
    }
    let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    cluster
        .until(&replica_sets(), "two old sets are kept", |sets| {
            let mut images: Vec<Value> = sets.iter().map(image).collect();
            images.sort_by_key(Value::to_string);
            images == ["web:1", "web:3", "web:4"]
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_exceeds_its_deadline_until_it_progresses() {
    let cluster = Cluster::start().await;
    cluster.create(&deployments(), deployment(2)).await;
    cluster
        .until_one(&deployments(), "web", "two pods run", |web| is_rolled_out(web, 2))
        .await;
    let never_ready = json!({"metadata": {"annotations": {"simulator.watchkeeper/ready": "false"}}});
    let patch = json!({"spec": {"template": never_ready}});
    cluster.patch(&deployments(), "web", patch).await;
    let stuck = |web: &Value| reason(web) == "ProgressDeadlineExceeded";
    cluster
        .until_one(&deployments(), "web", "the rollout is stuck", stuck)
        .await;
    let available = &cluster.get(&deployments(), "web").await["status"]["availableReplicas"];
    assert_eq!(*available, 2, "old pods serve on");
    let ready = json!({"metadata": {"annotations": {"simulator.watchkeeper/ready": null}}});
    cluster
        .patch(&deployments(), "web", json!({"spec": {"template": ready}}))
        .await;
    cluster
        .until_one(&deployments(), "web", "the rollout is done", |web| {
            is_rolled_out(web, 2)
        })
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_is_scaled_and_not_rolled() {
    let cluster = Cluster::start().await;
    cluster.create(&deployments(), deployment(1)).await;
    cluster
        .until_one(&deployments(), "web", "one pod runs", |web| is_rolled_out(web, 1))
        .await;
    let mut patch = new_image("web:2");
    patch["spec"]["paused"] = json!(true);
    patch["spec"]["replicas"] = json!(2);
    cluster.patch(&deployments(), "web", patch).await;
    let paused = |web: &Value| reason(web) == "DeploymentPaused" && web["status"]["availableReplicas"] == 2;
    cluster
        .until_one(&deployments(), "web", "it is paused", paused)
        .await;
    cluster
        .until(&pods(), "old pods run", |pods| all_run(pods, 2, "web:1"))
        .await;
    cluster
        .patch(&deployments(), "web", json!({"spec": {"paused": false}}))
        .await;
    cluster
        .until(&pods(), "new pods run", |pods| all_run(pods, 2, "web:2"))
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_its_size() {
    let cluster = Cluster::start().await;
    let controllers = resource("", "replicationcontrollers");
    let controller = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"app": "web"}, "template": template("web", "web:1")},
    });
    cluster.create(&controllers, controller).await;
    let all = |web: &Value| web["status"]["availableReplicas"] == 2;
    cluster.until_one(&controllers, "web", "two pods run", all).await;
    cluster
        .patch(&controllers, "web", json!({"spec": {"replicas": 0}}))
        .await;
    cluster
        .until(&pods(), "no pods are left", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_exceeded_quota_is_reported_by_replica_set_and_deployment() {
    let cluster = Cluster::start().await;
    let quotas = resource("", "resourcequotas");
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
    cluster.create(&quotas, quota).await;
    let counted = |few: &Value| few["status"]["hard"]["pods"] == "1";
    cluster.until_one(&quotas, "few", "it is counted", counted).await;
    cluster.create(&deployments(), deployment(3)).await;
    let sets = resource("apps", "replicasets");
    let failure = |object: &Value| {
        let conditions = object["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == "ReplicaFailure")
    };
    let is_told = |object: &Value| {
        failure(object).is_some_and(|condition| {
            condition["status"] == "True"
                && condition["reason"] == "FailedCreate"
                && condition["message"].as_str().is_some_and(|words| {
                    words.starts_with("pods \"web-") && words.contains("is forbidden: exceeded quota: few")
                })
        })
    };
    cluster
        .until(&sets, "the set says so", |sets| sets.iter().any(is_told))
        .await;
    cluster
        .until_one(&deployments(), "web", "the deployment says so", is_told)
        .await;
    let words = "Error creating: pods \"web-";
    until_told(
        &cluster,
        "replicaset-controller",
        "ReplicaSet/web-",
        "FailedCreate",
        words,
    )
    .await;
    let stuck = |web: &Value| reason(web) == "ProgressDeadlineExceeded";
    cluster
        .until_one(&deployments(), "web", "it is stuck", stuck)
        .await;
    cluster
        .patch(&quotas, "few", json!({"spec": {"hard": {"pods": "5"}}}))
        .await;
    let well = |web: &Value| is_rolled_out(web, 3) && failure(web).is_none();
    cluster.until_one(&deployments(), "web", "it goes on", well).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reused_template_keeps_its_revision_history() {
    let cluster = Cluster::start().await;
    let mut first = deployment(1);
    first["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    cluster.create(&deployments(), first).await;
    cluster
        .until_one(&deployments(), "web", "it runs", |web| is_rolled_out(web, 1))
        .await;
    for image in ["web:2", "web:1"] {
        cluster.patch(&deployments(), "web", new_image(image)).await;
        cluster
            .until(&pods(), image, |pods| all_run(pods, 1, image))
            .await;
    }
    let sets = resource("apps", "replicasets");
    let annotation = |set: &Value, name: &str| set["metadata"]["annotations"][name].clone();
    let is_back = |sets: &[Value]| {
        sets.iter().any(|set| {
            annotation(set, "deployment.kubernetes.io/revision") == "3"
                && annotation(set, "deployment.kubernetes.io/revision-history") == "1"
                && annotation(set, "deployment.kubernetes.io/desired-replicas") == "1"
                && annotation(set, "deployment.kubernetes.io/max-replicas") == "2"
                && annotation(set, "kubernetes.io/change-cause") == "first"
        })
    };
    cluster
        .until(&sets, "the first set is the third revision", is_back)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_recreate_rollout_waits_for_old_pods_to_stop() {
    let cluster = Cluster::start_with(watchkeeper_simulator::SimulatorOptions {
        stop_time: std::time::Duration::from_secs(20),
        ..crate::simulator::support::quick()
    })
    .await;
    let mut recreated = deployment(2);
    recreated["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create(&deployments(), recreated).await;
    cluster
        .until_one(&deployments(), "web", "it runs", |web| is_rolled_out(web, 2))
        .await;
    cluster.patch(&deployments(), "web", new_image("web:2")).await;
    let seen = std::cell::Cell::new(false);
    let unavailable = |web: &Value| {
        let conditions = web["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .any(|one| one["type"] == "Available" && one["status"] == "False")
    };
    cluster
        .until_one(&deployments(), "web", "nothing is available", unavailable)
        .await;
    cluster
        .until(&pods(), "new pods run", |pods| {
            let images: std::collections::BTreeSet<&str> = pods
                .iter()
                .filter_map(|pod| pod["spec"]["containers"][0]["image"].as_str())
                .collect();
            seen.set(seen.get() || images.len() > 1);
            all_run(pods, 2, "web:2")
        })
        .await;
    assert!(!seen.get(), "old and new pods were there at the same time");
    cluster.stop().await;
}
