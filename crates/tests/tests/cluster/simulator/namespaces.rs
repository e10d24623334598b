//! Namespaces: default objects and deletion.

use serde_json::{Value, json};
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::Resource;
use watchkeeper_runtime::factory::Selection;
use watchkeeper_simulator::SimulatorOptions;

use crate::simulator::support::{Cluster, holds, names, pods, quick, resource};

fn namespaces() -> Resource {
    resource("", "namespaces")
}

fn maps() -> Resource {
    resource("", "configmaps")
}

fn within(cluster: &Cluster, resource: &Resource) -> DynamicApi {
    cluster.client().dynamic(resource.clone()).namespace("short")
}

/// Starts a cluster with a namespace that has its default objects.
async fn start_with_namespace() -> Cluster {
    let options = SimulatorOptions {
        root_ca: Some("the certificate".to_owned()),
        ..quick()
    };
    let cluster = Cluster::start_with(options).await;
    cluster
        .create(&namespaces(), json!({"metadata": {"name": "short"}}))
        .await;
    let complete = |all: &[Value]| names(all).contains(&"kube-root-ca.crt");
    until(&cluster, &maps(), "the namespace is complete", complete).await;
    cluster
}

async fn until(cluster: &Cluster, resource: &Resource, what: &str, check: impl Fn(&[Value]) -> bool) {
    let mut selection = Selection::all(resource.clone());
    selection.namespaces = vec!["short".to_owned()];
    cluster.until_selected(selection, what, check).await;
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let mut conditions = namespace["status"]["conditions"].as_array().unwrap().iter();
    let condition = conditions.find(|condition| condition["type"] == kind).unwrap();
    let text = |name: &str| condition[name].as_str().unwrap();
    (text("status"), text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn the_root_ca_and_default_account_of_a_namespace_are_restored() {
    let cluster = start_with_namespace().await;
    let filled = |maps: &[Value]| {
        let mut maps = maps.iter();
        maps.any(|map| {
            map["metadata"]["name"] == "kube-root-ca.crt"
                && map["data"] == json!({"ca.crt": "the certificate"})
        })
    };
    until(&cluster, &maps(), "it is filled", filled).await;
    let api = within(&cluster, &maps());
    let changed = json!({"data": {"ca.crt": "another", "more": "yes"}});
    let changed = api
        .patch("kube-root-ca.crt", watchkeeper_meta::PatchKind::Merge, &changed)
        .await
        .unwrap();
    until(&cluster, &maps(), "it is restored when changed", |maps| {
        filled(maps)
            && maps
                .iter()
                .all(|map| map["metadata"]["resourceVersion"] != changed.resource_version())
    })
    .await;
    api.delete("kube-root-ca.crt").await.unwrap();
    until(&cluster, &maps(), "it is restored when deleted", filled).await;

    let accounts = resource("", "serviceaccounts");
    let api = within(&cluster, &accounts);
    let uid = api.get("default").await.unwrap().uid().to_owned();
    api.delete("default").await.unwrap();
    let restored = |all: &[Value]| {
        let mut all = all.iter();
        all.any(|one| one["metadata"]["name"] == "default" && one["metadata"]["uid"] != uid)
    };
    until(&cluster, &accounts, "the account is restored", restored).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_namespace_are_deleted_before_the_objects_they_use() {
    let cluster = start_with_namespace().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "slow", "finalizers": ["example.com/held"]},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    });
    within(&cluster, &pods()).create(&pod).await.unwrap();
    cluster.delete(&namespaces(), "short").await;
    let told = |short: &Value| {
        holds(short, "NamespaceContentRemaining") && holds(short, "NamespaceFinalizersRemaining")
    };
    cluster
        .until_one(&namespaces(), "short", "it says what remains", told)
        .await;
    let short = cluster.get(&namespaces(), "short").await;
    let check = |kind: &str, wanted: (&str, &str, &str)| assert_eq!(condition(&short, kind), wanted);
    check(
        "NamespaceContentRemaining",
        (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: pods. has 1 resource instances",
        ),
    );
    check(
        "NamespaceFinalizersRemaining",
        (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances",
        ),
    );
    check(
        "NamespaceDeletionContentFailure",
        (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    );
    check(
        "NamespaceDeletionDiscoveryFailure",
        (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
    );
    let maps = within(&cluster, &maps()).list().await.unwrap();
    assert!(!maps.items.is_empty(), "what the pod uses is still there");
    let released = json!({"metadata": {"finalizers": null}});
    within(&cluster, &pods())
        .patch("slow", watchkeeper_meta::PatchKind::Merge, &released)
        .await
        .unwrap();
    let gone = |all: &[Value]| !names(all).contains(&"short");
    cluster.until(&namespaces(), "the namespace is gone", gone).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_reports_remaining_finalizers() {
    let cluster = start_with_namespace().await;
    let held = |name: &str, finalizer: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "finalizers": [finalizer]},
        })
    };
    for (name, finalizer) in [
        ("a", "example.com/x"),
        ("b", "example.com/x"),
        ("c", "example.com/y"),
    ] {
        within(&cluster, &maps())
            .create(&held(name, finalizer))
            .await
            .unwrap();
    }
    cluster.delete(&namespaces(), "short").await;
    let told = |short: &Value| {
        holds(short, "NamespaceFinalizersRemaining")
            && condition(short, "NamespaceContentRemaining").2
                == "Some resources are remaining: configmaps. has 3 resource instances"
            && condition(short, "NamespaceFinalizersRemaining").2
                == "Some content in the namespace has finalizers remaining: \
                    example.com/x in 2 resource instances, example.com/y in 1 resource instances"
    };
    cluster
        .until_one(&namespaces(), "short", "it says what remains", told)
        .await;
    cluster.stop().await;
}
