//! Garbage collection of custom objects: with their owner, with their namespace, and as owners.

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::support::{Cluster, resource};

fn widgets() -> Resource {
    Resource::namespaced("example.com", "v1", "Widget", "widgets")
}

fn definitions() -> Resource {
    resource("apiextensions.k8s.io", "customresourcedefinitions")
}

async fn start() -> Cluster {
    let cluster = Cluster::start().await;
    let schema = json!({"type": "object"});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    cluster.create(&definitions(), definition).await;
    cluster
}

fn owned_by(name: &str, owner: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }]}})
}

fn has(objects: &[Value], name: &str) -> bool {
    objects.iter().any(|it| it["metadata"]["name"] == name)
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_custom_object_are_collected() {
    let cluster = start().await;
    let maps = resource("", "configmaps");
    cluster
        .create(&widgets(), json!({"metadata": {"name": "root"}}))
        .await;
    let root = cluster.get(&widgets(), "root").await;
    cluster.create(&maps, owned_by("leaf", &root)).await;
    cluster.create(&widgets(), owned_by("branch", &root)).await;
    let branch = cluster.get(&widgets(), "branch").await;
    cluster.create(&maps, owned_by("twig", &branch)).await;
    cluster.delete(&widgets(), "root").await;
    cluster
        .until(&widgets(), "widgets are gone", <[Value]>::is_empty)
        .await;
    let is_bare = |maps: &[Value]| !has(maps, "leaf") && !has(maps, "twig");
    cluster.until(&maps, "maps are gone", is_bare).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dependents_are_collected_when_the_definition_is_deleted() {
    let cluster = start().await;
    let maps = resource("", "configmaps");
    cluster
        .create(&widgets(), json!({"metadata": {"name": "root"}}))
        .await;
    let root = cluster.get(&widgets(), "root").await;
    cluster.create(&maps, owned_by("leaf", &root)).await;
    cluster.delete(&definitions(), "widgets.example.com").await;
    cluster
        .until(&maps, "the map is gone", |maps| !has(maps, "leaf"))
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_deleted_with_their_namespace() {
    let cluster = start().await;
    let namespaces = resource("", "namespaces");
    let api = cluster.client().dynamic(namespaces.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short"}});
    api.create(&namespace).await.unwrap();
    let inside = cluster.client().dynamic(widgets()).namespace("short");
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
    inside.create(&widget).await.unwrap();
    api.delete("short").await.unwrap();
    cluster
        .until(&namespaces, "the namespace is gone", |all| !has(all, "short"))
        .await;
    let left = inside.list().await.unwrap();
    assert!(left.items.is_empty());
    cluster.stop().await;
}
