//! Snapshots: saved, forked, reset and printed clusters.

use serde_json::json;
use watchkeeper_meta::PatchKind;
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_server::{Action, RequestMatch, Rule, Verb};
use watchkeeper_testing::TestCluster;

use crate::support::{create_map, get, maps, names, paused, resource};

const WIDGETS: &str = "
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
";

async fn paint(cluster: &TestCluster, name: &str, colour: &str) {
    let patch = json!({"data": {"colour": colour}});
    let patched = maps(cluster).patch(name, PatchKind::Merge, &patch).await;
    patched.unwrap();
}

#[tokio::test]
async fn a_fork_starts_as_its_origin_and_is_independent() {
    let cluster = paused().await;
    create_map(&cluster, "a").await;
    let fork = cluster.fork().await.unwrap();
    create_map(&cluster, "only-here").await;
    create_map(&fork, "only-there").await;
    paint(&fork, "a", "red").await;
    assert_eq!(names(&maps(&cluster)).await, ["a", "only-here"]);
    assert_eq!(names(&maps(&fork)).await, ["a", "only-there"]);
    assert!(get(&maps(&cluster), "a").await["data"].is_null());
    // It is the same object there: same uid, and writes with its version succeed.
    let uid = async |of: &TestCluster| get(&maps(of), "a").await["metadata"]["uid"].clone();
    assert_eq!(uid(&cluster).await, uid(&fork).await);
    fork.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_fork_serves_the_custom_kinds_of_its_origin() {
    let cluster = paused().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("widgets.yaml"), WIDGETS).unwrap();
    cluster.load_dir(dir.path()).await.unwrap();
    let fork = cluster.fork().await.unwrap();
    fork.load(WIDGETS.split("---").next().unwrap()).await.unwrap();
    assert_eq!(fork.take_writes().effective().len(), 0);
    fork.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn reset_restores_the_initial_state_and_informers_follow() {
    let cluster = paused().await;
    cluster
        .load("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
        .await
        .unwrap();
    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::all(resource("", "configmaps")));
    create_map(&cluster, "a").await;
    let gets = RequestMatch::new(Verb::Get, "configmaps");
    cluster
        .faults()
        .inject(Rule::always(gets, Action::Forbid))
        .unwrap();
    cluster.run_until_idle().await;
    assert_eq!(informer.store().snapshot().iter().count(), 1);

    let before = cluster.revision();
    cluster.reset().await.unwrap();
    cluster.run_until_idle().await;
    assert_eq!(informer.store().snapshot().iter().count(), 0);
    assert!(cluster.revision() > before);
    assert_eq!(cluster.dump(), "");
    assert!(cluster.faults().rules().is_empty());
    assert!(cluster.writes().is_empty());
    create_map(&cluster, "a").await;
    get(&maps(&cluster), "a").await;
    factory.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn reset_removes_custom_kinds_and_restores_deleted_objects() {
    let cluster = paused().await;
    create_map(&cluster, "a").await;
    let snapshot = cluster.snapshot();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("widgets.yaml"), WIDGETS).unwrap();
    cluster.load_dir(dir.path()).await.unwrap();
    let deleted = maps(&cluster).delete("a").await;
    deleted.unwrap();
    cluster.restore(&snapshot).await.unwrap();
    assert_eq!(names(&maps(&cluster)).await, ["a"]);
    let served = cluster.client().discover().await.unwrap();
    assert!(served.resource("widgets").is_none());
    cluster.stop().await;
}

#[tokio::test]
async fn a_dump_is_a_manifest_that_can_be_loaded() {
    let cluster = paused().await;
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("b.yaml", WIDGETS),
        (
            "a.yml",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: shop}}",
        ),
        (
            "c.json",
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}"#,
        ),
        ("notes.txt", "no manifest"),
    ];
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    cluster.load_dir(dir.path()).await.unwrap();
    let dump = cluster.dump();
    let kinds: Vec<_> = dump.lines().filter(|line| line.starts_with("kind: ")).collect();
    let expected = [
        "kind: CustomResourceDefinition",
        "kind: Namespace",
        "kind: ConfigMap",
        "kind: Widget",
    ];
    assert_eq!(kinds, expected, "{dump}");
    assert!(
        !dump.contains("uid:") && !dump.contains("resourceVersion:"),
        "{dump}"
    );

    let other = paused().await;
    other.load(&dump).await.unwrap();
    assert_eq!(other.dump(), dump);
    other.stop().await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_missing_directory_is_an_error() {
    let cluster = paused().await;
    let missing = cluster.load_dir("/no/such/directory").await.unwrap_err();
    assert_eq!(missing.to_string(), "/no/such/directory cannot be read");
    cluster.stop().await;
}

#[tokio::test]
async fn the_past_can_be_read() {
    let cluster = paused().await;
    create_map(&cluster, "a").await;
    let blue = {
        paint(&cluster, "a", "blue").await;
        cluster.revision()
    };
    paint(&cluster, "a", "red").await;
    create_map(&cluster, "b").await;
    let past = cluster.at(blue).await.unwrap();
    let map = past.get("ConfigMap", "default", "a").unwrap();
    assert_eq!(map["data"]["colour"], "blue");
    assert_eq!(map["metadata"]["resourceVersion"], blue.to_string());
    assert_eq!(past.objects("ConfigMap").len(), 1);
    assert!(past.dump().contains("colour: blue"));
    let yet_to_come = cluster.at(cluster.revision() + 1).await.unwrap_err();
    assert!(yet_to_come.to_string().ends_with("cannot be read"));
    cluster.stop().await;
}

#[tokio::test]
async fn a_fork_writes_nothing() {
    let cluster = paused().await;
    for index in 0..100 {
        create_map(&cluster, &format!("map-{index}")).await;
    }
    let fork = cluster.fork().await.unwrap();
    let list = maps(&fork).list().await.unwrap();
    assert_eq!(list.items.len(), 100);
    // The revision is its origin's: nothing was written to make the fork.
    assert_eq!(fork.revision(), cluster.revision());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map-0"}});
    let again = maps(&fork).create(&map).await;
    assert!(again.unwrap_err().is_already_exists());
    fork.stop().await;
    cluster.stop().await;
}
