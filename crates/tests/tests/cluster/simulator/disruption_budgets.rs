//! Evictions, as requested by `kubectl drain`.

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_meta::Resource;

use crate::simulator::support::{Cluster, all_run, names, pods, resource, selector, template};

fn budgets() -> Resource {
    resource("policy", "poddisruptionbudgets")
}

async fn evict(cluster: &Cluster, pod: &str) -> Result<(), Error> {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"},
    });
    let api = cluster.api(&pods()).subresource("eviction");
    api.post(pod, &eviction).await.map(drop)
}

fn allows(budget: &Value, healthy: u64, allowed: u64) -> bool {
    let number = |name: &str| budget["status"][name].as_u64().unwrap_or_default();
    number("currentHealthy") == healthy
        && number("disruptionsAllowed") == allowed
        && budget["status"]["observedGeneration"] == budget["metadata"]["generation"]
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_evictions_one_at_a_time() {
    let cluster = Cluster::start().await;
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": selector("web"), "template": template("web", "web:1")},
    });
    cluster.create(&resource("apps", "statefulsets"), set).await;
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": selector("web")}});
    cluster.create(&budgets(), budget).await;
    cluster
        .until_one(&budgets(), "web", "one can be spared", |budget| {
            allows(budget, 3, 1)
        })
        .await;
    for pod in ["web-0", "web-1", "web-2"] {
        evict(&cluster, pod).await.unwrap();
        let refused = evict(&cluster, "web-2").await;
        assert!(pod == "web-2" || refused.is_err_and(|error| error.is_too_many_requests()));
        cluster
            .until_one(&budgets(), "web", "it came back", |budget| allows(budget, 3, 1))
            .await;
    }
    cluster
        .until(&pods(), "all run", |pods| {
            all_run(pods, 3, "web:1") && names(pods) == ["web-0", "web-1", "web-2"]
        })
        .await;
    cluster
        .patch(
            &budgets(),
            "web",
            json!({"spec": {"minAvailable": null, "maxUnavailable": "100%"}}),
        )
        .await;
    cluster
        .until_one(&budgets(), "web", "all can be spared", |budget| {
            allows(budget, 3, 3)
        })
        .await;
    cluster.stop().await;
}
