//! Evictions with a disruption budget, which no recording covers.

use serde_json::{Value, json};
use watchkeeper_meta::{GetOptions, GroupVersionResource, Status};
use watchkeeper_registry::{Body, Format, Part, PatchKind, Registry, WriteContext};
use watchkeeper_storage::{Store, StoreOptions};

struct Cluster(Registry);

impl Cluster {
    /// A running pod, and a budget that selects it.
    async fn with_budget(budget_status: Value) -> Self {
        let cluster = Self(
            Registry::open(Store::memory(StoreOptions::default()))
                .await
                .unwrap(),
        );
        let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": spec});
        let selector = json!({"matchLabels": {"app": "web"}});
        let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}});
        let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        cluster.create("", "pods", pod).await;
        cluster.create("policy", "poddisruptionbudgets", budget).await;
        cluster.set_status("", "pods", "p", running).await;
        cluster
            .set_status("policy", "poddisruptionbudgets", "b", budget_status)
            .await;
        cluster
    }

    async fn create(&self, group: &'static str, plural: &'static str, object: Value) {
        let definition = self
            .0
            .definition(&GroupVersionResource::new(group, "v1", plural))
            .unwrap();
        let bytes = serde_json::to_vec(&object).unwrap();
        let context = WriteContext::default();
        let created = self.0.create(&definition, "default", body(&bytes), &context);
        created.await.unwrap();
    }

    async fn set_status(&self, group: &'static str, plural: &'static str, name: &str, status: Value) {
        let definition = self
            .0
            .definition(&GroupVersionResource::new(group, "v1", plural))
            .unwrap();
        let (context, kind) = (WriteContext::default(), PatchKind::Merge);
        let patch = serde_json::to_vec(&json!({"status": status})).unwrap();
        let patched = self.0.patch(
            &definition,
            "default",
            name,
            Part::Status,
            (kind, &patch),
            &context,
        );
        patched.await.unwrap();
    }

    async fn show(&self, group: &'static str, plural: &'static str, name: &str) -> Value {
        let definition = self
            .0
            .definition(&GroupVersionResource::new(group, "v1", plural))
            .unwrap();
        let options = GetOptions::default();
        let found = self.0.get(&definition, "default", name, &options);
        found.await.unwrap().to_value(&definition).unwrap()
    }

    async fn evict(&self) -> Result<Status, Status> {
        self.evict_with(json!({})).await
    }

    async fn evict_with(&self, options: Value) -> Result<Status, Status> {
        let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": options}).to_string();
        self.0
            .evict("default", "p", body(eviction.as_bytes()), WriteContext::default())
            .await
    }
}

fn body(bytes: &[u8]) -> Body<'_> {
    Body {
        format: Format::Json,
        bytes,
    }
}

#[tokio::test]
async fn an_exhausted_budget_refuses_evictions() {
    let status =
        json!({"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1});
    let cluster = Cluster::with_budget(status).await;
    let refusal = serde_json::to_value(cluster.evict().await.unwrap_err()).unwrap();
    assert_eq!(refusal["code"], 429);
    assert_eq!(
        refusal["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(
        refusal["details"]["causes"],
        json!([{
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
        }])
    );
    assert!(cluster.show("", "pods", "p").await["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test]
async fn an_unobserved_budget_asks_for_a_retry() {
    let cluster = Cluster::with_budget(json!({"disruptionsAllowed": 1})).await;
    let refusal = serde_json::to_value(cluster.evict().await.unwrap_err()).unwrap();
    assert_eq!(
        (
            refusal["code"].clone(),
            refusal["details"]["retryAfterSeconds"].clone()
        ),
        (json!(429), json!(10))
    );
}

#[tokio::test]
async fn an_eviction_spends_the_budget() {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "expectedPods": 2});
    let cluster = Cluster::with_budget(status).await;
    cluster.evict().await.unwrap();
    let budget = cluster.show("policy", "poddisruptionbudgets", "b").await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["p"].is_string());
    let mut conditions = budget["status"]["conditions"].clone();
    assert!(conditions[0]["lastTransitionTime"].take().is_string());
    assert_eq!(
        conditions,
        json!([{
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": 1, "lastTransitionTime": null,
            "reason": "InsufficientPods", "message": "",
        }])
    );
    let managers = budget["metadata"]["managedFields"].as_array().unwrap();
    let server = managers
        .iter()
        .find(|entry| entry["manager"] == "kube-apiserver")
        .unwrap();
    assert_eq!(server["subresource"], "status");
    assert!(server["fieldsV1"]["f:status"]["f:disruptedPods"]["f:p"].is_object());
    let pod = cluster.show("", "pods", "p").await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    // The second eviction finds the pod terminating, and does not spend the budget.
    cluster.evict().await.unwrap();
}

#[tokio::test]
async fn a_dry_run_evicts_nothing() {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "expectedPods": 2});
    let cluster = Cluster::with_budget(status).await;
    let pod = cluster.show("", "pods", "p").await;
    let budget = cluster.show("policy", "poddisruptionbudgets", "b").await;
    cluster.evict_with(json!({"dryRun": ["All"]})).await.unwrap();
    assert_eq!(cluster.show("", "pods", "p").await, pod);
    assert_eq!(cluster.show("policy", "poddisruptionbudgets", "b").await, budget);
}

#[tokio::test]
async fn an_eviction_respects_a_resource_version_precondition() {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 2, "expectedPods": 2});
    let cluster = Cluster::with_budget(status).await;
    let refused = cluster.evict_with(json!({"preconditions": {"resourceVersion": "1"}}));
    assert!(refused.await.unwrap_err().is_conflict());
    let pod = cluster.show("", "pods", "p").await;
    let version = &pod["metadata"]["resourceVersion"];
    let evicted = cluster.evict_with(json!({"preconditions": {"resourceVersion": version}}));
    evicted.await.unwrap();
    let pod = cluster.show("", "pods", "p").await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn several_budgets_refuse_an_eviction_without_a_reason() {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": 1, "expectedPods": 2});
    let cluster = Cluster::with_budget(status).await;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let second = json!({"metadata": {"name": "second"}, "spec": spec});
    cluster.create("policy", "poddisruptionbudgets", second).await;
    let refusal = serde_json::to_value(cluster.evict().await.unwrap_err()).unwrap();
    assert_eq!(refusal["code"], 500);
    assert!(refusal.get("reason").is_none(), "{refusal}");
    assert!(refusal.get("details").is_none(), "{refusal}");
}
