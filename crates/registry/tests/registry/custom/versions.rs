//! Kinds with several versions: stored in one, served in all.

use serde_json::{Value, json};
use watchkeeper_meta::WatchOptions;
use watchkeeper_registry::encode::{self, OutputForm, View};
use watchkeeper_wire::Encoding;

use super::cluster::{Cluster, definition, free, widget};

/// `v1` is stored, `v2` has an additional field, `v3` is not served.
fn versions() -> Value {
    let mut versioned = definition(free());
    let version = |name: &str, served: bool, storage: bool, properties: Value| {
        json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}})
    };
    let (a, b) = (
        json!({"type": "string"}),
        json!({"type": "string", "default": "b"}),
    );
    versioned["spec"]["versions"] = json!([
        version("v1", true, true, json!({"a": a})),
        version("v2", true, false, json!({"a": a, "b": b})),
        version("v3", false, false, json!({})),
    ]);
    versioned
}

#[tokio::test]
async fn an_object_is_served_in_every_version() {
    let cluster = Cluster::start().await;
    cluster.define(versions()).await.unwrap();
    assert!(cluster.resource("v3").is_none());
    let (v1, v2) = (cluster.resource("v1").unwrap(), cluster.resource("v2").unwrap());
    cluster.create(widget("x", json!({"a": "1"}))).await.unwrap();
    let second = cluster.get_in(&v2, "default", "x").await.unwrap();
    assert_eq!(second["apiVersion"], "example.com/v2");
    // Defaults are those of the stored version, as in Kubernetes.
    assert_eq!(second["spec"], json!({"a": "1"}));

    let mut other = widget("y", json!({"a": "2", "b": "3"}));
    other["apiVersion"] = json!("example.com/v2");
    cluster.create_in(&v2, "default", other).await.unwrap();
    let first = cluster.get_in(&v1, "default", "y").await.unwrap();
    assert_eq!(first["apiVersion"], "example.com/v1");
    assert_eq!(first["spec"], json!({"a": "2"}));
}

#[tokio::test]
async fn watches_of_two_versions_do_not_share_encoded_events() {
    let cluster = Cluster::start().await;
    cluster.define(versions()).await.unwrap();
    let (v1, v2) = (cluster.resource("v1").unwrap(), cluster.resource("v2").unwrap());
    let form = OutputForm {
        encoding: Encoding::Json,
        view: View::Whole,
    };
    let options = WatchOptions::default();
    let mut watches = Vec::new();
    for definition in [&v1, &v2, &v1] {
        watches.push(cluster.registry.watch(definition, "", &options).await.unwrap());
    }
    cluster.create(widget("x", json!({"a": "1"}))).await.unwrap();
    let mut stated = Vec::new();
    for watch in &mut watches {
        let item = watch.next().await.unwrap();
        let line = encode::watch_item(watch.definition(), &item, form).unwrap();
        let event: Value = serde_json::from_slice(&line).unwrap();
        stated.push(event["object"]["apiVersion"].as_str().unwrap().to_owned());
    }
    assert_eq!(stated, ["example.com/v1", "example.com/v2", "example.com/v1"]);
}

#[tokio::test]
async fn a_version_in_stored_versions_cannot_be_removed() {
    let cluster = Cluster::start().await;
    cluster.define(versions()).await.unwrap();
    let mut moved = versions()["spec"]["versions"].clone();
    moved[0]["storage"] = json!(false);
    moved[1]["storage"] = json!(true);
    let crds = cluster.definitions();
    let patch = |versions: Value| {
        cluster.patch(
            &crds,
            "",
            "widgets.example.com",
            json!({"spec": {"versions": versions}}),
        )
    };
    let patched = patch(moved.clone()).await.unwrap();
    assert_eq!(patched["status"]["storedVersions"], json!(["v1", "v2"]));
    let refused = patch(json!([moved[1]])).await.unwrap_err();
    assert!(
        refused
            .message
            .contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions;")
    );
}
