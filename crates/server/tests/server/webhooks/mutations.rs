//! Mutating webhooks.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::endpoint::{Endpoint, Reply};
use super::{Cluster, MAPS, MUTATING, VALIDATING, configuration, map, rule};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster with a webhook that patches creates.
async fn patching(patch: Value, rules: Value) -> (Cluster, Endpoint) {
    let endpoint = Endpoint::start(move |request| match request["operation"].as_str() {
        Some("CREATE") => Reply::patch(&patch),
        _ => Reply::allow(),
    })
    .await;
    let mut cluster = Cluster::start().await;
    cluster
        .create(MUTATING, configuration("a", &endpoint, json!({"rules": rules})))
        .await;
    (cluster, endpoint)
}

#[tokio::test]
async fn a_patched_object_is_decoded_again() {
    let check = async |patch: Value, expected: Value| {
        let (mut cluster, _endpoint) = patching(patch.clone(), json!([rule("*", "configmaps")])).await;
        let mut created = cluster.create(MAPS, map("one")).await;
        let metadata = created["metadata"].as_object_mut().unwrap();
        metadata.retain(|name, _| matches!(name.as_str(), "labels" | "name"));
        let shown = json!({"metadata": metadata, "data": created["data"]});
        assert_eq!(shown, expected, "{patch}");
        cluster.server.shutdown().await;
    };
    check(
        json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
        json!({"metadata": {"name": "one", "labels": {"a": "b"}}, "data": {"colour": "blue"}}),
    )
    .await;
    check(
        json!([{"op": "replace", "path": "/data/colour", "value": "red"}, {"op": "add", "path": "/nonsense", "value": 1}]),
        json!({"metadata": {"name": "one"}, "data": {"colour": "red"}}),
    )
    .await;
    check(
        json!([{"op": "remove", "path": "/data"}, {"op": "replace", "path": "/metadata/name", "value": "two"}]),
        json!({"metadata": {"name": "two"}, "data": null}),
    )
    .await;
}

#[tokio::test]
async fn fields_added_by_a_webhook_are_defaulted_and_have_no_manager() {
    let patch =
        json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "proxy", "image": "proxy:1"}}]);
    let (mut cluster, _endpoint) = patching(patch, json!([rule("CREATE", "pods")])).await;
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "main:1"}]}});
    let created = cluster.create(PODS, pod).await;
    let added = &created["spec"]["containers"][1];
    assert_eq!(added["imagePullPolicy"], "IfNotPresent");
    let managed = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:containers"];
    assert!(managed.get("k:{\"name\":\"main\"}").is_some());
    assert!(managed.get("k:{\"name\":\"proxy\"}").is_none());
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn an_invalid_patch_is_rejected() {
    let check = async |patch: Value, code: u16, expected: &str| {
        let (mut cluster, _endpoint) = patching(patch.clone(), json!([rule("*", "configmaps")])).await;
        let answer = cluster.post(MAPS, map("one")).await;
        assert_eq!(
            (answer.status, answer.json()["message"].as_str().unwrap()),
            (code, expected),
            "{patch}"
        );
        cluster.server.shutdown().await;
    };
    check(
        json!([{"op": "remove", "path": "/nothing"}]),
        500,
        "Internal error occurred: error in remove for path: '/nothing': Unable to remove nonexistent key: nothing: \
         missing value",
    )
    .await;
    check(
        json!([{"op": "add", "path": "/data/not a key", "value": "x"}]),
        422,
        "ConfigMap \"one\" is invalid: data[not a key]: Invalid value: \"not a key\": a valid config key must consist \
         of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
         validation is '[-._a-zA-Z0-9]+')",
    )
    .await;
    check(
        json!([{"op": "replace", "path": "/metadata/namespace", "value": "other"}]),
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )
    .await;
}

#[tokio::test]
async fn a_deletion_cannot_be_changed() {
    let endpoint = Endpoint::start(|_| Reply::patch(&json!([{"op": "remove", "path": "/data"}]))).await;
    let mut cluster = Cluster::start().await;
    cluster.create(MAPS, map("one")).await;
    cluster
        .create(MUTATING, configuration("a", &endpoint, json!({})))
        .await;
    let answer = cluster.delete(&format!("{MAPS}/one")).await;
    assert_eq!(
        answer.json()["message"],
        "Internal error occurred: admission webhook \"a.example.com\" attempted to modify the object, which is not \
         supported for this operation"
    );
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_webhook_can_change_only_the_written_part() {
    let endpoint = Endpoint::start(|_| {
        Reply::patch(&json!([
            {"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}},
            {"op": "add", "path": "/status", "value": {"phase": "Failed"}},
        ]))
    })
    .await;
    let mut cluster = Cluster::start().await;
    let spec = json!({"containers": [{"name": "main", "image": "main:1"}]});
    let created = cluster
        .create(PODS, json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;
    let rules = json!([rule("UPDATE", "pods")]);
    cluster
        .create(MUTATING, configuration("a", &endpoint, json!({"rules": rules})))
        .await;
    let changed = cluster
        .patch(&format!("{PODS}/p"), json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .json();
    assert_eq!(changed["metadata"]["annotations"], json!({"seen": "yes"}));
    assert_eq!(changed["status"], created["status"]);
    cluster.server.shutdown().await;
}

/// Webhooks that record their calls, and append a letter to a field of the object.
struct Letters {
    cluster: Cluster,
    asked: Arc<Mutex<Vec<String>>>,
    endpoints: Vec<Endpoint>,
}

impl Letters {
    async fn start() -> Self {
        Self {
            cluster: Cluster::start().await,
            asked: Arc::default(),
            endpoints: Vec::new(),
        }
    }

    /// Adds a webhook of this name; it changes objects that are shorter than `up_to`.
    async fn add(&mut self, name: &'static str, up_to: usize, policy: &str) {
        let asked = self.asked.clone();
        let endpoint = Endpoint::start(move |request| {
            asked.lock().push(name.to_owned());
            let text = request["object"]["data"]["colour"].as_str().unwrap();
            match text.len() < up_to {
                true => {
                    let value = format!("{text}{name}");
                    Reply::patch(&json!([{"op": "replace", "path": "/data/colour", "value": value}]))
                }
                false => Reply::allow(),
            }
        })
        .await;
        let parts = json!({"reinvocationPolicy": policy});
        self.cluster
            .create(MUTATING, configuration(name, &endpoint, parts))
            .await;
        self.endpoints.push(endpoint);
    }

    /// The created object, and the order of calls.
    async fn create(mut self) -> (String, String) {
        let mut object = map("one");
        object["data"]["colour"] = json!("");
        let created = self.cluster.create(MAPS, object).await;
        self.cluster.server.shutdown().await;
        let colour = created["data"]["colour"].as_str().unwrap().to_owned();
        (colour, self.asked.lock().concat())
    }
}

#[tokio::test]
async fn webhooks_are_called_by_name_and_reinvoked_if_needed() {
    let check = async |webhooks: &[(&'static str, usize, &str)], expected: (&str, &str)| {
        let mut letters = Letters::start().await;
        for (name, up_to, policy) in webhooks {
            letters.add(name, *up_to, policy).await;
        }
        let (colour, asked) = letters.create().await;
        assert_eq!((&*colour, &*asked), expected, "{webhooks:?}");
    };
    check(
        &[("c", 9, "Never"), ("a", 9, "Never"), ("b", 9, "Never")],
        ("abc", "abc"),
    )
    .await;
    // Only webhooks with `IfNeeded` are reinvoked, and only after a later change.
    check(&[("a", 9, "IfNeeded"), ("b", 9, "Never")], ("aba", "aba")).await;
    check(&[("a", 9, "IfNeeded"), ("b", 0, "Never")], ("a", "ab")).await;
    check(&[("a", 0, "IfNeeded"), ("b", 9, "IfNeeded")], ("b", "aba")).await;
    // At most twice.
    check(&[("a", 9, "IfNeeded"), ("b", 9, "IfNeeded")], ("aba", "aba")).await;
}

#[tokio::test]
async fn validating_webhooks_see_the_mutated_object() {
    let patch = json!([{"op": "replace", "path": "/data/colour", "value": "red"}]);
    let (mut cluster, _patching) = patching(patch, json!([rule("*", "configmaps")])).await;
    let endpoint = Endpoint::start(|request| {
        let colour = &request["object"]["data"]["colour"];
        let status = json!({"message": format!("{colour} is not a colour")});
        Reply::Response(json!({"allowed": false, "status": status}))
    })
    .await;
    cluster
        .create(VALIDATING, configuration("b", &endpoint, json!({})))
        .await;
    let answer = cluster.post(MAPS, map("one")).await;
    assert_eq!(
        answer.json()["message"],
        "admission webhook \"b.example.com\" denied the request: \"red\" is not a colour"
    );
    cluster.server.shutdown().await;
}
