//! A simulated cluster with simulated time, and waits for expected states.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi};
use watchkeeper_meta::{PatchKind, Resource, Scope};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::store::Snapshot;
use watchkeeper_server::Handle;
use watchkeeper_simulator::SimulatorOptions;
use watchkeeper_testing::{TestCluster, TestOptions};
use watchkeeper_wire::schema::resources;

/// A simulated day: far longer than any test takes.
const PATIENCE: Duration = Duration::from_secs(86_400);

pub(crate) struct Cluster(TestCluster);

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::start_with(quick()).await
    }

    pub(crate) async fn start_with(options: SimulatorOptions) -> Self {
        let nodes = options.nodes;
        let options = TestOptions {
            simulator: Some(options),
            ..TestOptions::default()
        };
        let cluster = Self(TestCluster::start_with(options).await.unwrap());
        let registered = |all: &[Value]| all.len() == nodes && all.iter().all(|node| holds(node, "Ready"));
        cluster
            .until(&resource("", "nodes"), "nodes are ready", registered)
            .await;
        cluster
    }

    pub(crate) fn client(&self) -> &Client {
        self.0.client()
    }

    pub(crate) fn server(&self) -> &Handle {
        self.0.server()
    }

    pub(crate) async fn stop(self) {
        self.0.stop().await;
    }

    /// A client for a resource, in the default namespace if it is namespaced.
    pub(crate) fn api(&self, resource: &Resource) -> DynamicApi {
        let api = self.client().dynamic(resource.clone());
        match resource.scope {
            Scope::Namespaced => api.namespace("default"),
            Scope::Cluster => api,
        }
    }

    pub(crate) async fn create(&self, resource: &Resource, mut object: Value) {
        object["apiVersion"] = json!(resource.group_version_kind().api_version());
        object["kind"] = json!(resource.kind);
        let api = self.api(resource);
        api.create(&object).await.unwrap();
    }

    pub(crate) async fn patch(&self, resource: &Resource, name: &str, patch: Value) {
        let api = self.api(resource);
        api.patch(name, PatchKind::Merge, &patch).await.unwrap();
    }

    pub(crate) async fn delete(&self, resource: &Resource, name: &str) {
        self.api(resource).delete(name).await.unwrap();
    }

    pub(crate) async fn get(&self, resource: &Resource, name: &str) -> Value {
        let object = self.api(resource).get(name).await;
        object.unwrap().to_value().unwrap()
    }

    /// Waits until one object satisfies a condition.
    pub(crate) async fn until_one(
        &self,
        resource: &Resource,
        name: &str,
        what: &str,
        check: impl Fn(&Value) -> bool,
    ) {
        let check = |all: &[Value]| {
            all.iter()
                .any(|one| one["metadata"]["name"] == name && check(one))
        };
        self.until(resource, what, check).await;
    }

    /// Waits until the objects of a resource satisfy a condition.
    pub(crate) async fn until(&self, resource: &Resource, what: &str, check: impl Fn(&[Value]) -> bool) {
        let mut selection = Selection::all(resource.clone());
        if resource.scope == Scope::Namespaced {
            selection.namespaces = vec!["default".to_owned()];
        }
        self.until_selected(selection, what, check).await;
    }

    pub(crate) async fn until_selected(
        &self,
        selection: Selection,
        what: &str,
        check: impl Fn(&[Value]) -> bool,
    ) {
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
            let last = serde_json::to_string_pretty(&last).unwrap();
            panic!("{what} never came true: {last}");
        }
    }
}

/// Options without delays.
pub(crate) fn quick() -> SimulatorOptions {
    SimulatorOptions {
        nodes: 2,
        container_creation: Duration::ZERO,
        run_time: Duration::ZERO,
        stop_time: Duration::ZERO,
        ..Default::default()
    }
}

pub(crate) fn resource(group: &str, plural: &str) -> Resource {
    let known = resources::by_plural(group, "v1", plural);
    known.unwrap().resource.clone()
}

pub(crate) fn pods() -> Resource {
    resource("", "pods")
}

/// Pods labelled `app=NAME` with one container.
pub(crate) fn template(name: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

pub(crate) fn selector(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

/// A patch with another image for the container of a template.
pub(crate) fn new_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// True if there are that many pods, all ready and with this image.
pub(crate) fn all_run(pods: &[Value], count: usize, image: &str) -> bool {
    let runs = |pod: &Value| holds(pod, "Ready") && pod["spec"]["containers"][0]["image"] == image;
    pods.len() == count && pods.iter().all(runs)
}

pub(crate) fn holds(object: &Value, kind: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

pub(crate) fn names(objects: &[Value]) -> Vec<&str> {
    let names = objects.iter().map(|object| object["metadata"]["name"].as_str());
    names.map(Option::unwrap_or_default).collect()
}
