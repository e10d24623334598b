//! Resource metrics of pods and nodes.

use serde_json::{Value, json};
use watchkeeper_meta::{Resource, Scope};
use watchkeeper_simulator::SimulatorOptions;

use crate::simulator::support::{Cluster, names, pods, quick};

fn metrics(kind: &'static str, plural: &'static str, scope: Scope) -> Resource {
    Resource {
        group: "metrics.k8s.io".into(),
        version: "v1beta1".into(),
        kind: kind.into(),
        plural: plural.into(),
        scope,
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_usage_of_pods_and_nodes() {
    let options = SimulatorOptions {
        nodes: 1,
        metrics: true,
        ..quick()
    };
    let cluster = Cluster::start_with(options).await;
    let resources = json!({"requests": {"cpu": "500m", "memory": "64Mi"}});
    let pod = |name: &str, usage: Value| {
        json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "annotations": usage},
            "spec": {"containers": [{"name": "c", "image": "web:1", "resources": resources}]},
        })
    };
    cluster.create(&pods(), pod("half", json!({}))).await;
    let stated = json!({"simulator.watchkeeper/cpu-usage": "1", "simulator.watchkeeper/memory-usage": "1Gi"});
    cluster.create(&pods(), pod("stated", stated)).await;
    let pod_metrics = metrics("PodMetrics", "pods", Scope::Namespaced);
    let uses = |name: &'static str, usage: Value| {
        move |all: &[Value]| {
            let mut own = all.iter().filter(|one| one["metadata"]["name"] == name);
            own.any(|one| one["containers"] == json!([{"name": "c", "usage": usage}]))
        }
    };
    let half = json!({"cpu": "250m", "memory": "32Mi"});
    cluster
        .until(&pod_metrics, "half of what is requested", uses("half", half))
        .await;
    let stated = json!({"cpu": "1", "memory": "1Gi"});
    cluster
        .until(&pod_metrics, "as stated", uses("stated", stated))
        .await;
    let node_metrics = metrics("NodeMetrics", "nodes", Scope::Cluster);
    let sum = |node: &Value| node["usage"] == json!({"cpu": "1250m", "memory": "1056Mi"});
    cluster
        .until_one(&node_metrics, "node-1", "a node has the sum", sum)
        .await;
    cluster.delete(&pods(), "stated").await;
    cluster
        .until(&pod_metrics, "metrics go with their pod", |all| {
            names(all) == ["half"]
        })
        .await;
    cluster.stop().await;
}
