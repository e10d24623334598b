//! Conversion webhooks: `v1` has `spec.hostPort`, `v2` has `spec.host` and `spec.port`.

use ::http::Method;
use serde_json::{Value, json};

use super::endpoint::{Endpoint, Reply};
use super::{Cluster, MERGE, connected};
use crate::lines::Lines;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/example.com/v1/namespaces/default/sites";
const V2: &str = "/apis/example.com/v2/namespaces/default/sites";
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");

/// The response of a webhook.
type Answers = fn(&Value) -> Reply;

/// Converts as an operator would.
fn convert(request: &Value) -> Reply {
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap().iter();
    let converted: Vec<Value> = objects.map(|object| converted(object, wanted)).collect();
    Reply::Response(json!({"convertedObjects": converted, "result": {"status": "Success"}}))
}

fn converted(object: &Value, wanted: &str) -> Value {
    let (mut converted, spec) = (object.clone(), &object["spec"]);
    assert_ne!(
        object["apiVersion"], wanted,
        "only objects of another version are sent"
    );
    converted["apiVersion"] = json!(wanted);
    let text = |name: &str| spec[name].as_str().unwrap_or_default();
    converted["spec"] = match wanted {
        "example.com/v1" => json!({"hostPort": format!("{}:{}", text("host"), text("port"))}),
        _ => {
            let (host, port) = text("hostPort").split_once(':').unwrap_or_default();
            json!({"host": host, "port": port})
        }
    };
    converted
}

/// The definition, stored in one of the versions.
fn definition(endpoint: &Endpoint, stored: &str) -> Value {
    let version = |name: &str, fields: &[&str]| {
        let texts = fields
            .iter()
            .map(|name| ((*name).to_owned(), json!({"type": "string"})));
        let spec = json!({"type": "object", "properties": texts.collect::<serde_json::Map<_, _>>()});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"name": name, "served": true, "storage": name == stored, "schema": schema})
    };
    let webhook = json!({"clientConfig": endpoint.client_config(), "conversionReviewVersions": ["v1"]});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "sites", "kind": "Site"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [version("v1", &["hostPort"]), version("v2", &["host", "port"])],
        },
    })
}

fn old(name: &str, host_port: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": name},
        "spec": {"hostPort": host_port}})
}

fn new(name: &str, host: &str, port: &str) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Site", "metadata": {"name": name},
        "spec": {"host": host, "port": port}})
}

async fn serving(endpoint: &Endpoint, stored: &str) -> Cluster {
    let mut cluster = Cluster::start().await;
    cluster.create(DEFINITIONS, definition(endpoint, stored)).await;
    cluster
}

#[tokio::test]
async fn objects_are_written_and_read_in_every_version() {
    let endpoint = Endpoint::start(convert).await;
    let mut cluster = serving(&endpoint, "v1").await;
    let created = cluster.create(V2, new("a", "h", "1")).await;
    assert_eq!(created["spec"], json!({"host": "h", "port": "1"}));
    let shown = cluster.client.get(&format!("{V1}/a")).await.json();
    assert_eq!(shown["spec"], json!({"hostPort": "h:1"}));
    assert_eq!(shown["metadata"], created["metadata"]);

    let patched = cluster
        .patch(&format!("{V2}/a"), json!({"spec": {"port": "2"}}))
        .await;
    assert_eq!(patched.json()["spec"], json!({"host": "h", "port": "2"}));
    let mut replaced = cluster.client.get(&format!("{V1}/a")).await.json();
    assert_eq!(replaced["spec"], json!({"hostPort": "h:2"}));
    replaced["spec"]["hostPort"] = json!("h:3");
    let body = replaced.to_string();
    let replaced = cluster
        .client
        .send(Method::PUT, &format!("{V1}/a"), &[], &body)
        .await;
    assert_eq!(replaced.json()["spec"], json!({"hostPort": "h:3"}));

    let list = cluster.client.get(V2).await.json();
    assert_eq!(list["items"][0]["spec"], json!({"host": "h", "port": "3"}));
    // A no-op write stays one in every version.
    let same = cluster
        .patch(&format!("{V2}/a"), json!({"spec": {"port": "3"}}))
        .await
        .json();
    assert_eq!(
        same["metadata"]["resourceVersion"],
        replaced.json()["metadata"]["resourceVersion"]
    );
    let gone = cluster.delete(&format!("{V2}/a")).await;
    assert_eq!(gone.status, 200);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn watches_deliver_objects_in_their_version() {
    let endpoint = Endpoint::start(convert).await;
    let mut cluster = serving(&endpoint, "v1").await;
    cluster.create(V1, old("a", "h:1")).await;
    let mut watching = connected(&cluster.server).await;
    let mut lines = Lines::open(&mut watching, &format!("{V2}?watch=true")).await;
    let first = lines.next().await.unwrap();
    assert_eq!(first["object"]["spec"], json!({"host": "h", "port": "1"}));
    cluster
        .patch(&format!("{V1}/a"), json!({"spec": {"hostPort": "h:2"}}))
        .await;
    cluster.delete(&format!("{V1}/a")).await;
    for kind in ["MODIFIED", "DELETED"] {
        let event = lines.next().await.unwrap();
        assert_eq!(event["type"], json!(kind));
        assert_eq!(event["object"]["apiVersion"], json!("example.com/v2"));
        assert_eq!(event["object"]["spec"], json!({"host": "h", "port": "2"}));
    }
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_long_list_is_converted_in_batches() {
    let endpoint = Endpoint::start(convert).await;
    let mut cluster = serving(&endpoint, "v1").await;
    for number in 0..150 {
        cluster.create(V1, old(&format!("s{number}"), "h:1")).await;
    }
    assert_eq!(endpoint.take_seen().len(), 0, "no other version was requested");
    let list = cluster.client.get(V2).await.json();
    let items = list["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["spec"]["port"] == "1"));
    let sizes: Vec<usize> = endpoint
        .take_seen()
        .iter()
        .map(|request| request["objects"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [100, 50]);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn objects_stored_in_another_version_are_converted_until_they_are_written() {
    let endpoint = Endpoint::start(convert).await;
    let mut cluster = serving(&endpoint, "v1").await;
    let created = cluster.create(V1, old("a", "h:1")).await;
    let storage = json!({"spec": {"versions": definition(&endpoint, "v2")["spec"]["versions"]}});
    let flipped = cluster
        .patch(&format!("{DEFINITIONS}/sites.example.com"), storage)
        .await;
    assert_eq!(flipped.status, 200, "{}", flipped.text());
    endpoint.take_seen();
    let shown = cluster.client.get(&format!("{V2}/a")).await.json();
    assert_eq!(shown["spec"], json!({"host": "h", "port": "1"}));
    assert_eq!(endpoint.take_seen().len(), 1);
    // A no-op write stores it in the new version.
    let migrated = cluster.patch(&format!("{V2}/a"), json!({})).await.json();
    assert_ne!(
        migrated["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    endpoint.take_seen();
    cluster.client.get(&format!("{V2}/a")).await;
    assert_eq!(endpoint.take_seen().len(), 0);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn conversion_errors_have_the_texts_of_kubernetes() {
    let renamed = |request: &Value| {
        let mut converted = converted(&request["objects"][0], "example.com/v2");
        converted["metadata"]["name"] = json!("other");
        Reply::Response(json!({"convertedObjects": [converted], "result": {"status": "Success"}}))
    };
    let failed = |_: &Value| {
        Reply::Response(json!({"convertedObjects": [], "result": {"status": "Failure", "message": "no way"}}))
    };
    let none = |_: &Value| Reply::Response(json!({"convertedObjects": [], "result": {"status": "Success"}}));
    let cases: [(Answers, &str); 4] = [
        (failed, "failed: no way"),
        (none, "returned 0 objects, expected 1"),
        (
            renamed,
            "returned invalid object: must have the same name: a != other",
        ),
        (|_| Reply::Close, "failed: Post \"URL?timeout=30s\": EOF"),
    ];
    for (reply, expected) in cases {
        let endpoint = Endpoint::start(reply).await;
        let mut cluster = serving(&endpoint, "v1").await;
        cluster.create(V1, old("a", "h:1")).await;
        let url = endpoint.client_config()["url"].as_str().unwrap().to_owned();
        let expected = expected.replace("URL", &url);
        for path in [format!("{V2}/a"), V2.to_owned()] {
            let answer = cluster.client.get(&path).await;
            let message = format!("conversion webhook for example.com/v1, Kind=Site {expected}");
            let found = answer.json();
            assert_eq!((answer.status, &found["message"]), (500, &json!(message)));
            assert!(found["reason"].is_null());
        }
        // Requests for the stored version need no webhook.
        assert_eq!(cluster.client.get(&format!("{V1}/a")).await.status, 200);
        let definition = format!("{DEFINITIONS}/sites.example.com");
        assert_eq!(cluster.delete(&definition).await.status, 200);
        cluster.server.shutdown().await;
    }
}

#[tokio::test]
async fn managed_fields_conflict_across_versions() {
    let endpoint = Endpoint::start(convert).await;
    let mut cluster = serving(&endpoint, "v1").await;
    let path = |base: &str, manager: &str| format!("{base}/a?fieldManager={manager}");
    let apply = async |cluster: &mut Cluster, path: String, object: Value| {
        let body = object.to_string();
        cluster.client.send(Method::PATCH, &path, &[APPLY], &body).await
    };
    let applied = apply(&mut cluster, path(V1, "one"), old("a", "h:1")).await;
    assert_eq!(applied.status, 201, "{}", applied.text());
    let refused = apply(&mut cluster, path(V2, "two"), new("a", "h", "2"))
        .await
        .json();
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        json!("conflict with \"one\"")
    );
    // The field has another name in that version.
    let mine = json!({"spec": {"port": "3"}}).to_string();
    let changed = cluster
        .client
        .send(Method::PATCH, &path(V2, "three"), &[MERGE], &mine)
        .await
        .json();
    let managers = changed["metadata"]["managedFields"].as_array().unwrap();
    let fields = |name: &str| {
        let found = managers.iter().find(|it| it["manager"] == name);
        found.map(|it| it["fieldsV1"]["f:spec"].clone())
    };
    assert_eq!(fields("three"), Some(json!({"f:port": {}})));
    assert_eq!(fields("one"), None, "another manager changed its fields");
    cluster.server.shutdown().await;
}
