//! The simulated cluster on an embedded server, as a user sees it.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::Client;
use watchkeeper_meta::{
    CreateOptions, DeleteOptions, GetOptions, ListOptions, PatchKind, PatchOptions, PropagationPolicy,
    Resource,
};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::store::Snapshot;
use watchkeeper_simulator::SimulatorOptions;
use watchkeeper_testing::{TestCluster, TestOptions};
use watchkeeper_wire::schema::resources;

/// Far more than anything here takes; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster(TestCluster);

impl Cluster {
    async fn start() -> Self {
        let quick = SimulatorOptions {
            nodes: 2,
            container_creation: Duration::ZERO,
            run_time: Duration::ZERO,
            stop_time: Duration::ZERO,
        };
        Self(
            TestCluster::start_with(TestOptions {
                simulator: Some(quick),
            })
            .await
            .unwrap(),
        )
    }

    fn client(&self) -> &Client {
        self.0.client()
    }

    async fn stop(self) {
        self.0.stop().await;
    }

    async fn create(&self, resource: &Resource, object: Value) {
        let api = self.client().dynamic(resource.clone()).namespace("default");
        api.create(&object, &CreateOptions::default()).await.unwrap();
    }

    /// Waits until the objects of a namespace are as they should be.
    async fn until(
        &self,
        resource: &Resource,
        namespace: &str,
        what: &str,
        check: impl Fn(&[Value]) -> bool,
    ) {
        let mut selection = Selection::all(resource.clone());
        selection.namespaces = Some(namespace)
            .filter(|namespace| !namespace.is_empty())
            .map(str::to_owned)
            .into_iter()
            .collect();
        let informer = Factory::new(self.client().clone(), FactoryOptions::default()).informer(selection);
        let values = |snapshot: &Snapshot| -> Vec<Value> {
            snapshot.iter().map(|object| object.to_value().unwrap()).collect()
        };
        let seen = |snapshot: &Snapshot| snapshot.is_synced() && check(&values(snapshot));
        if tokio::time::timeout(PATIENCE, informer.store().wait_until(seen))
            .await
            .is_err()
        {
            let last = values(&informer.store().snapshot());
            panic!(
                "{what} never came true: {}",
                serde_json::to_string_pretty(&last).unwrap()
            );
        }
    }
}

fn resource(group: &str, plural: &str) -> Resource {
    resources::by_plural(group, "v1", plural)
        .unwrap()
        .resource
        .clone()
}

fn deployment(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

fn all_run(pods: &[Value], count: usize, image: &str) -> bool {
    pods.len() == count
        && pods
            .iter()
            .all(|pod| pod["status"]["phase"] == "Running" && pod["spec"]["containers"][0]["image"] == image)
}

#[tokio::test]
async fn a_deployment_runs_rolls_and_goes() {
    let cluster = Cluster::start().await;
    let (deployments, pods) = (resource("apps", "deployments"), resource("", "pods"));
    cluster.create(&deployments, deployment(3, "web:1")).await;
    cluster
        .until(&pods, "default", "three pods run", |pods| {
            all_run(pods, 3, "web:1")
        })
        .await;
    let ready = |objects: &[Value]| objects.len() == 1 && objects[0]["status"]["availableReplicas"] == 3;
    cluster
        .until(&deployments, "default", "the deployment is available", ready)
        .await;

    let api = cluster.client().dynamic(deployments.clone()).namespace("default");
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}});
    api.patch("web", PatchKind::Merge, &patch, &PatchOptions::default())
        .await
        .unwrap();
    cluster
        .until(&pods, "default", "three new pods run", |pods| {
            all_run(pods, 3, "web:2")
        })
        .await;

    api.delete("web", &DeleteOptions::default()).await.unwrap();
    cluster
        .until(&pods, "default", "no pods are left", <[Value]>::is_empty)
        .await;
    cluster
        .until(
            &resource("apps", "replicasets"),
            "default",
            "no sets are left",
            <[Value]>::is_empty,
        )
        .await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_meant_to_end_ends() {
    let cluster = Cluster::start().await;
    let pods = resource("", "pods");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "once"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "job:1"}]},
    });
    cluster.create(&pods, pod).await;
    let ended = |pods: &[Value]| pods.len() == 1 && pods[0]["status"]["phase"] == "Succeeded";
    cluster.until(&pods, "default", "the pod has ended", ended).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let cluster = Cluster::start().await;
    let (namespaces, config_maps) = (resource("", "namespaces"), resource("", "configmaps"));
    let api = cluster.client().dynamic(namespaces.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short"}});
    api.create(&namespace, &CreateOptions::default()).await.unwrap();
    let complete = |maps: &[Value]| {
        maps.iter()
            .any(|map| map["metadata"]["name"] == "kube-root-ca.crt")
    };
    cluster
        .until(&config_maps, "short", "the namespace is complete", complete)
        .await;
    api.delete("short", &DeleteOptions::default()).await.unwrap();
    let gone = |all: &[Value]| {
        !all.iter()
            .any(|namespace| namespace["metadata"]["name"] == "short")
    };
    cluster
        .until(&namespaces, "", "the namespace is gone", gone)
        .await;
    cluster.stop().await;
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_goes_last() {
    let cluster = Cluster::start().await;
    let (deployments, pods) = (resource("apps", "deployments"), resource("", "pods"));
    cluster.create(&deployments, deployment(2, "web:1")).await;
    cluster
        .until(&pods, "default", "two pods run", |pods| all_run(pods, 2, "web:1"))
        .await;
    let api = cluster.client().dynamic(deployments.clone()).namespace("default");
    let foreground = DeleteOptions {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..Default::default()
    };
    api.delete("web", &foreground).await.unwrap();
    cluster
        .until(
            &deployments,
            "default",
            "the deployment is gone",
            <[Value]>::is_empty,
        )
        .await;
    let sets = cluster
        .client()
        .dynamic(resource("apps", "replicasets"))
        .namespace("default");
    let left = sets.list(&ListOptions::default()).await.unwrap();
    assert!(left.items.is_empty(), "the owner went before its dependents");
    let missing = api.get("web", &GetOptions::default()).await.unwrap_err();
    assert!(missing.is_not_found());
    cluster.stop().await;
}
