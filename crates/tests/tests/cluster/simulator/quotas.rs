//! Quotas: usage is counted, charged and released.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::{CreateOptions, Resource};

use crate::simulator::support::{Cluster, pods, resource};

fn quotas() -> Resource {
    resource("", "resourcequotas")
}

fn quota(hard: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

async fn create_pod(cluster: &Cluster, name: &str, cpu: &str) -> Result<(), Error> {
    let (api, options) = (cluster.api(&pods()), CreateOptions::default());
    api.create(&pod(name, cpu)).with(&options).await.map(drop)
}

async fn until_used(cluster: &Cluster, used: Value) {
    let what = format!("{used} is used");
    let is_used =
        |quota: &Value| quota["status"]["used"] == used && quota["status"]["hard"] == quota["spec"]["hard"];
    cluster.until_one(&quotas(), "q", &what, is_used).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_objects_release_their_usage() {
    let cluster = Cluster::start().await;
    create_pod(&cluster, "a", "250m").await.unwrap();
    cluster
        .create(&quotas(), quota(json!({"pods": "2", "requests.cpu": "1"})))
        .await;
    until_used(&cluster, json!({"pods": "1", "requests.cpu": "250m"})).await;
    create_pod(&cluster, "b", "500m").await.unwrap();
    let refused = create_pod(&cluster, "c", "100m").await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
        "{refused}"
    );
    cluster.delete(&pods(), "a").await;
    until_used(&cluster, json!({"pods": "1", "requests.cpu": "500m"})).await;
    create_pod(&cluster, "c", "100m").await.unwrap();
    until_used(&cluster, json!({"pods": "2", "requests.cpu": "600m"})).await;
    // A newly limited resource is counted.
    cluster
        .patch(
            &quotas(),
            "q",
            json!({"spec": {"hard": {"pods": null, "count/pods": "5"}}}),
        )
        .await;
    until_used(&cluster, json!({"count/pods": "2", "requests.cpu": "600m"})).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_terminated_pod_releases_its_usage() {
    let cluster = Cluster::start().await;
    cluster.create(&quotas(), quota(json!({"pods": "1"}))).await;
    until_used(&cluster, json!({"pods": "0"})).await;
    let mut short = pod("a", "1");
    short["metadata"]["annotations"] = json!({"simulator.watchkeeper/exit-code": "0"});
    short["spec"]["restartPolicy"] = json!("Never");
    cluster.create(&pods(), short).await;
    until_used(&cluster, json!({"pods": "0"})).await;
    create_pod(&cluster, "b", "1").await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_counted() {
    let cluster = Cluster::start().await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    cluster
        .create(
            &resource("apiextensions.k8s.io", "customresourcedefinitions"),
            definition,
        )
        .await;
    let widgets = Resource::namespaced("example.com", "v1", "Widget", "widgets");
    for name in ["a", "b", "c"] {
        cluster
            .create(&widgets, json!({"metadata": {"name": name}}))
            .await;
    }
    cluster
        .create(&quotas(), quota(json!({"count/widgets.example.com": "3"})))
        .await;
    until_used(&cluster, json!({"count/widgets.example.com": "3"})).await;
    // They are not watched, but recounted periodically.
    cluster.delete(&widgets, "a").await;
    until_used(&cluster, json!({"count/widgets.example.com": "2"})).await;
    cluster.stop().await;
}

/// A quota of pods with a scope: `Terminating`, or `PriorityClass In high`.
fn scoped(name: &str, scope: &str) -> Value {
    let words: Vec<&str> = scope.split(' ').collect();
    let selector = match words.as_slice() {
        [scope] => json!({"scopeName": scope, "operator": "Exists"}),
        [scope, operator, values @ ..] => json!({"scopeName": scope, "operator": operator, "values": values}),
        [] => unreachable!(),
    };
    json!({
        "metadata": {"name": name},
        "spec": {"hard": {"pods": "5"}, "scopeSelector": {"matchExpressions": [selector]}},
    })
}

async fn until_pods(cluster: &Cluster, counts: &[(&str, &str)]) {
    for (name, count) in counts {
        let what = format!("{name} has {count}");
        let has = |quota: &Value| quota["status"]["used"]["pods"] == **count;
        cluster.until_one(&quotas(), name, &what, has).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_the_pods_in_its_scope() {
    let cluster = Cluster::start().await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    cluster
        .create(&resource("scheduling.k8s.io", "priorityclasses"), class)
        .await;
    for (name, scope) in [
        ("ending", "Terminating"),
        ("endless", "NotTerminating"),
        ("best", "BestEffort"),
        ("burst", "NotBestEffort"),
        ("high", "PriorityClass In high"),
        ("other", "PriorityClass NotIn high"),
    ] {
        cluster.create(&quotas(), scoped(name, scope)).await;
        until_pods(&cluster, &[(name, "0")]).await;
    }
    cluster.create(&pods(), pod("plain", "100m")).await;
    let plain = [
        ("ending", "0"),
        ("endless", "1"),
        ("best", "0"),
        ("burst", "1"),
        ("high", "0"),
        ("other", "1"),
    ];
    until_pods(&cluster, &plain).await;
    let mut bounded = pod("bounded", "100m");
    bounded["spec"]["activeDeadlineSeconds"] = json!(3600);
    bounded["spec"]["priorityClassName"] = json!("high");
    bounded["spec"]["containers"][0]["resources"].take();
    cluster.create(&pods(), bounded).await;
    let both = [
        ("ending", "1"),
        ("endless", "1"),
        ("best", "1"),
        ("burst", "1"),
        ("high", "1"),
        ("other", "1"),
    ];
    until_pods(&cluster, &both).await;
    // A deadline set later moves a pod to another scope.
    cluster
        .patch(&pods(), "plain", json!({"spec": {"activeDeadlineSeconds": 3600}}))
        .await;
    until_pods(&cluster, &[("ending", "2"), ("endless", "0")]).await;
    cluster.delete(&pods(), "bounded").await;
    until_pods(&cluster, &[("ending", "1"), ("best", "0"), ("high", "0")]).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_device_claims_by_class() {
    let cluster = Cluster::start().await;
    let hard = json!({
        "count/resourceclaims.resource.k8s.io": "2",
        "gold.deviceclass.resource.k8s.io/devices": "5",
    });
    cluster.create(&quotas(), quota(hard)).await;
    let used = |claims: &str, devices: &str| {
        json!({
            "count/resourceclaims.resource.k8s.io": claims,
            "gold.deviceclass.resource.k8s.io/devices": devices,
        })
    };
    until_used(&cluster, used("0", "0")).await;
    let claims = resource("resource.k8s.io", "resourceclaims");
    let claim = |name: &str, requests: Value| json!({"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}});
    let exactly = |count: u32| json!([{"name": "r", "exactly": {"deviceClassName": "gold", "allocationMode": "ExactCount", "count": count}}]);
    cluster.create(&claims, claim("two", exactly(2))).await;
    until_used(&cluster, used("1", "2")).await;
    let mut greedy = claim("greedy", exactly(4));
    greedy["apiVersion"] = json!("resource.k8s.io/v1");
    greedy["kind"] = json!("ResourceClaim");
    let refused = cluster
        .api(&claims)
        .create(&greedy)
        .await
        .unwrap_err()
        .to_string();
    let words = "exceeded quota: q, requested: gold.deviceclass.resource.k8s.io/devices=4, \
                 used: gold.deviceclass.resource.k8s.io/devices=2, limited: gold.deviceclass.resource.k8s.io/devices=5";
    assert!(refused.contains(words), "{refused}");
    let either = json!([{"name": "r", "firstAvailable": [
        {"name": "a", "deviceClassName": "gold", "allocationMode": "ExactCount", "count": 3},
        {"name": "b", "deviceClassName": "gold", "allocationMode": "ExactCount", "count": 1},
    ]}]);
    cluster.create(&claims, claim("either", either)).await;
    until_used(&cluster, used("2", "5")).await;
    cluster.delete(&claims, "two").await;
    until_used(&cluster, used("1", "3")).await;
    cluster.stop().await;
}
