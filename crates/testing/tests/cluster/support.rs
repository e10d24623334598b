//! Helpers for clusters and their objects.

use serde_json::{Value, json};
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::{Resource, Scope};
use watchkeeper_testing::{TestCluster, TestOptions};
use watchkeeper_wire::schema::resources;

/// The start time of paused clusters.
pub(crate) const START: &str = "2030-01-01T00:00:00Z";

/// A cluster with paused time.
pub(crate) async fn paused() -> TestCluster {
    let options = TestOptions {
        start_time: Some(START.parse().unwrap()),
        paused: true,
        ..TestOptions::default()
    };
    TestCluster::start_with(options).await.unwrap()
}

/// A built-in resource by name.
pub(crate) fn resource(group: &str, plural: &str) -> Resource {
    let known = resources::all()
        .iter()
        .find(|it| it.resource.group == group && it.resource.plural == plural);
    known.unwrap().resource.clone()
}

/// The API of a resource in the default namespace, or of a cluster-scoped one.
pub(crate) fn api(cluster: &TestCluster, group: &str, plural: &str) -> DynamicApi {
    let resource = resource(group, plural);
    let scope = resource.scope;
    let api = cluster.client().dynamic(resource);
    match scope {
        Scope::Namespaced => api.namespace("default"),
        Scope::Cluster => api,
    }
}

pub(crate) fn maps(cluster: &TestCluster) -> DynamicApi {
    api(cluster, "", "configmaps")
}

pub(crate) async fn create_map(cluster: &TestCluster, name: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    maps(cluster).create(&map).await.unwrap();
}

pub(crate) async fn get(api: &DynamicApi, name: &str) -> Value {
    let object = api.get(name).await.unwrap();
    object.to_value().unwrap()
}

/// The names of all objects.
pub(crate) async fn names(api: &DynamicApi) -> Vec<String> {
    let list = api.list().await.unwrap();
    list.items.iter().map(|item| item.name().to_owned()).collect()
}
