//! Quotas: what is taken is counted, charged and given back.

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
async fn what_goes_is_given_back() {
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
    // What is limited anew is counted anew.
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
async fn a_pod_that_has_ended_takes_no_more() {
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
    let widgets = Resource {
        group: "example.com".into(),
        version: "v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
        scope: watchkeeper_meta::Scope::Namespaced,
    };
    for name in ["a", "b", "c"] {
        cluster
            .create(&widgets, json!({"metadata": {"name": name}}))
            .await;
    }
    cluster
        .create(&quotas(), quota(json!({"count/widgets.example.com": "3"})))
        .await;
    until_used(&cluster, json!({"count/widgets.example.com": "3"})).await;
    // Nobody watches them, but now and then they are counted.
    cluster.delete(&widgets, "a").await;
    until_used(&cluster, json!({"count/widgets.example.com": "2"})).await;
    cluster.stop().await;
}
