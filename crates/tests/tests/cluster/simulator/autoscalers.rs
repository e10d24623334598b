//! Autoscalers, with simulated time and load.

use serde_json::{Value, json};
use watchkeeper_meta::Resource;
use watchkeeper_wire::schema::resources;

use crate::simulator::events::until_told;
use crate::simulator::support::{Cluster, resource, selector};

fn autoscalers() -> Resource {
    let known = resources::by_plural("autoscaling", "v2", "horizontalpodautoscalers");
    known.unwrap().resource.clone()
}

fn deployments() -> Resource {
    resource("apps", "deployments")
}

fn deployment(cpu: &str, requests: Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": selector("web"), "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": {"simulator.watchkeeper/cpu-usage": cpu}},
            "spec": {"containers": [{"name": "c", "image": "web:1", "resources": {"requests": requests}}]},
        }},
    })
}

fn autoscaler() -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 6,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    })
}

fn condition(scaler: &Value, kind: &str) -> (String, String) {
    let conditions = scaler["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == kind)
        .unwrap_or_default();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

async fn load(cluster: &Cluster, cpu: &str) {
    let annotations = json!({"simulator.watchkeeper/cpu-usage": cpu});
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    cluster.patch(&deployments(), "web", patch).await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_scales_with_the_load_of_its_pods() {
    let cluster = Cluster::start().await;
    cluster
        .create(&deployments(), deployment("100m", json!({"cpu": "100m"})))
        .await;
    cluster.create(&autoscalers(), autoscaler()).await;
    let has = |count: u32| {
        move |web: &Value| web["spec"]["replicas"] == count && web["status"]["readyReplicas"] == count
    };
    cluster
        .until_one(&deployments(), "web", "it has grown to its limit", has(6))
        .await;
    let told = |scaler: &Value| {
        let current = &scaler["status"]["currentMetrics"][0]["resource"]["current"];
        current["averageUtilization"] == 100
            && scaler["status"]["currentReplicas"] == 6
            && condition(scaler, "ScalingActive") == ("True".to_owned(), "ValidMetricFound".to_owned())
            && condition(scaler, "ScalingLimited") == ("True".to_owned(), "TooManyReplicas".to_owned())
    };
    cluster
        .until_one(&autoscalers(), "web", "it says why not further", told)
        .await;
    let who = "horizontal-pod-autoscaler";
    let words = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    until_told(
        &cluster,
        who,
        "HorizontalPodAutoscaler/web",
        "SuccessfulRescale",
        words,
    )
    .await;
    let before = tokio::time::Instant::now();
    load(&cluster, "10m").await;
    cluster
        .until_one(&deployments(), "web", "it has shrunk", |web| {
            has(1)(web) || has(2)(web)
        })
        .await;
    assert!(before.elapsed().as_secs() >= 290, "not before the window is over");
    until_told(
        &cluster,
        who,
        "HorizontalPodAutoscaler/web",
        "SuccessfulRescale",
        "New size: ",
    )
    .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_reports_missing_metrics_and_targets() {
    let cluster = Cluster::start().await;
    cluster
        .create(&deployments(), deployment("100m", json!({})))
        .await;
    cluster.create(&autoscalers(), autoscaler()).await;
    let lacks = |scaler: &Value| {
        condition(scaler, "ScalingActive") == ("False".to_owned(), "FailedGetResourceMetric".to_owned())
    };
    cluster
        .until_one(&autoscalers(), "web", "it has no metric", lacks)
        .await;
    let who = "horizontal-pod-autoscaler";
    let words = "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get \
                 cpu utilization: ";
    let reason = "FailedComputeMetricsReplicas";
    until_told(&cluster, who, "HorizontalPodAutoscaler/web", reason, words).await;
    cluster
        .patch(
            &autoscalers(),
            "web",
            json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}}}),
        )
        .await;
    let lost = |scaler: &Value| {
        condition(scaler, "AbleToScale") == ("False".to_owned(), "FailedGetScale".to_owned())
    };
    cluster
        .until_one(&autoscalers(), "web", "it has no target", lost)
        .await;
    cluster.stop().await;
}
