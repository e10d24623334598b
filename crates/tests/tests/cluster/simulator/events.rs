//! Events recorded by controllers.

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::support::{Cluster, resource, selector, template};

pub(crate) fn events() -> Resource {
    resource("", "events")
}

/// Waits for an Event with this reporter, object, reason, and start of its message.
pub(crate) async fn until_told(cluster: &Cluster, who: &str, about: &str, reason: &str, words: &str) {
    let (kind, name) = about.split_once('/').unwrap();
    let is_it = |event: &Value| {
        let object = &event["involvedObject"];
        event["source"]["component"] == who
            && event["reportingComponent"] == who
            && object["kind"] == kind
            && object["name"].as_str().unwrap().starts_with(name)
            && event["reason"] == reason
            && event["message"].as_str().unwrap().starts_with(words)
    };
    let what = format!("{who} tells of {about}: {reason} {words}");
    cluster
        .until(&events(), &what, |events| events.iter().any(is_it))
        .await;
}

#[tokio::test(start_paused = true)]
async fn controllers_record_events_for_pods_they_create_and_delete() {
    let cluster = Cluster::start().await;
    let deployments = resource("apps", "deployments");
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": selector("web"), "template": template("web", "web:1")},
    });
    cluster.create(&deployments, deployment).await;
    let told = async |who: &str, about: &str, reason: &str, words: &str| {
        until_told(&cluster, who, about, reason, words).await;
    };
    let scaled = "Scaled up replica set web-";
    told(
        "deployment-controller",
        "Deployment/web",
        "ScalingReplicaSet",
        scaled,
    )
    .await;
    let created = "Created pod: web-";
    told(
        "replicaset-controller",
        "ReplicaSet/web-",
        "SuccessfulCreate",
        created,
    )
    .await;
    let assigned = "Successfully assigned default/web-";
    told("default-scheduler", "Pod/web-", "Scheduled", assigned).await;
    told("kubelet", "Pod/web-", "Started", "Container started").await;
    cluster
        .patch(&deployments, "web", json!({"spec": {"replicas": 1}}))
        .await;
    let scaled = "Scaled down replica set web-";
    told(
        "deployment-controller",
        "Deployment/web",
        "ScalingReplicaSet",
        scaled,
    )
    .await;
    let deleted = "Deleted pod: web-";
    told(
        "replicaset-controller",
        "ReplicaSet/web-",
        "SuccessfulDelete",
        deleted,
    )
    .await;
    told("kubelet", "Pod/web-", "Killing", "Stopping container c").await;

    for plural in ["statefulsets", "daemonsets"] {
        let mut set = json!({
            "metadata": {"name": plural},
            "spec": {"selector": selector(plural), "template": template(plural, "web:1")},
        });
        if plural == "statefulsets" {
            set["spec"]["serviceName"] = json!("web");
        }
        cluster.create(&resource("apps", plural), set).await;
    }
    let created = "create Pod statefulsets-0 in StatefulSet statefulsets successful";
    told(
        "statefulset-controller",
        "StatefulSet/statefulsets",
        "SuccessfulCreate",
        created,
    )
    .await;
    let created = "Created pod: daemonsets-";
    told(
        "daemonset-controller",
        "DaemonSet/daemonsets",
        "SuccessfulCreate",
        created,
    )
    .await;
    cluster.stop().await;
}
