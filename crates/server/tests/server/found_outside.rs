//! Differences from Kubernetes that other people's tests and programs have found. Each has its test here or with its
//! topic: webhook addresses in `webhooks`, initial objects in `first_second`, names and rules of kinds in the tests
//! of the registry.

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use crate::client::{Answer, Client};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn start() -> (Handle, Client) {
    let server = Server::builder().in_memory().start().await.unwrap();
    let client = Client::http1(server.connector().connect().await.unwrap()).await;
    let client = client.with_token(&server);
    (server, client)
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn send(client: &mut Client, method: Method, path: &str, body: &Value) -> Answer {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    client
        .send(method, path, &[("content-type", kind)], &body.to_string())
        .await
}

#[tokio::test]
async fn a_body_without_kind_and_version_has_those_of_its_endpoint() {
    let (server, mut client) = start().await;
    let answer = send(
        &mut client,
        Method::POST,
        MAPS,
        &json!({"metadata": {"name": "x"}}),
    )
    .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["kind"], "ConfigMap");
    server.shutdown().await;
}

#[tokio::test]
async fn the_last_of_duplicate_keys_counts() {
    let (server, mut client) = start().await;
    let body = r#"{"metadata": {"name": "x"}, "data": {"a": "1", "a": "2"}}"#;
    let answer = client
        .send(Method::POST, MAPS, &[("content-type", "application/json")], body)
        .await;
    assert_eq!(answer.json()["data"], json!({"a": "2"}));
    server.shutdown().await;
}

#[tokio::test]
async fn a_limit_is_ignored_at_version_zero() {
    let (server, mut client) = start().await;
    for name in ["a", "b"] {
        send(&mut client, Method::POST, MAPS, &map(name)).await;
    }
    for (query, items) in [("limit=1", 1), ("limit=1&resourceVersion=0", 2)] {
        let selector = "labelSelector=!never";
        let list = client.get(&format!("{MAPS}?{query}&{selector}")).await.json();
        let names = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["metadata"]["name"]);
        let own = names.filter(|name| *name == "a" || *name == "b").count();
        assert_eq!(own, items, "{query}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_negative_grace_period_becomes_a_second() {
    let (server, mut client) = start().await;
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": -5});
    let pod = json!({"metadata": {"name": "x"}, "spec": spec});
    let answer = send(&mut client, Method::POST, "/api/v1/namespaces/default/pods", &pod).await;
    assert_eq!(
        answer.json()["spec"]["terminationGracePeriodSeconds"],
        1,
        "{}",
        answer.text()
    );
    server.shutdown().await;
}

#[tokio::test]
async fn a_status_update_owns_no_labels() {
    const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let (server, mut client) = start().await;
    let claim = json!({"metadata": {"name": "x"}, "spec": {"devices": {}}});
    send(&mut client, Method::POST, CLAIMS, &claim).await;
    let change = json!({"metadata": {"labels": {"a": "b"}}, "status": {}});
    let answer = send(&mut client, Method::PATCH, &format!("{CLAIMS}/x/status"), &change).await;
    let answer = answer.json();
    assert_eq!(answer["metadata"]["labels"], Value::Null, "{answer}");
    let mut entries = answer["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    assert!(
        entries.all(|entry| entry["fieldsV1"]["f:metadata"].is_null()),
        "{answer}"
    );
    server.shutdown().await;
}

#[tokio::test]
async fn a_dry_run_create_of_an_existing_object_is_already_exists() {
    let (server, mut client) = start().await;
    send(&mut client, Method::POST, MAPS, &map("x")).await;
    let mut versioned = map("x");
    versioned["metadata"]["resourceVersion"] = json!("1");
    let path = format!("{MAPS}?dryRun=All");
    for body in [map("x"), versioned] {
        let answer = send(&mut client, Method::POST, &path, &body).await;
        assert_eq!(answer.json()["reason"], "AlreadyExists", "{}", answer.text());
    }
    server.shutdown().await;
}

#[tokio::test]
async fn an_invalid_continue_token_is_rejected() {
    let (server, mut client) = start().await;
    let answer = client.get(&format!("{MAPS}?continue=x")).await;
    let message = answer.json()["message"].to_string();
    assert_eq!(answer.status, 400, "{message}");
    assert!(message.contains("continue key is not valid"), "{message}");
    server.shutdown().await;
}

#[tokio::test]
async fn discovery_has_the_hash_of_the_stored_version() {
    let (server, mut client) = start().await;
    let resources = client.get("/apis/apps/v1").await.json();
    let list = resources["resources"].as_array().unwrap();
    let deployments = list
        .iter()
        .find(|resource| resource["name"] == "deployments")
        .unwrap();
    assert_eq!(deployments["storageVersionHash"], "8aSe+NMegvE=");
    server.shutdown().await;
}

#[tokio::test]
async fn what_is_posted_to_a_subresource_must_match_its_namespace_and_version() {
    let (server, mut client) = start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = send(&mut client, Method::POST, pods, &pod).await.json();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    send(
        &mut client,
        Method::POST,
        accounts,
        &json!({"metadata": {"name": "p"}}),
    )
    .await;
    let elsewhere = json!({"metadata": {"name": "p", "namespace": "other"}, "target": {"name": "n"}});
    for path in [
        format!("{pods}/p/eviction"),
        format!("{pods}/p/binding"),
        format!("{accounts}/p/token"),
    ] {
        let mut body = elsewhere.clone();
        if !path.ends_with("binding") {
            body.as_object_mut().unwrap().remove("target");
        }
        let answer = send(&mut client, Method::POST, &path, &body).await;
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        assert_eq!(
            (answer.status, answer.json()["message"].clone()),
            (400, json!(why)),
            "{path}"
        );
    }
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let binding = format!("{pods}/p/binding");
    let of = |version: &str| json!({"metadata": {"name": "p", "resourceVersion": version}, "target": {"name": "n"}});
    let refused = send(&mut client, Method::POST, &binding, &of("1")).await;
    let why = format!(
        "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: /registry/pods/default/p, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: 1, \
         ResourceVersion in object meta: {version}"
    );
    assert_eq!(
        (refused.status, refused.json()["message"].clone()),
        (409, json!(why))
    );
    let bound = send(&mut client, Method::POST, &binding, &of(version)).await;
    assert_eq!(bound.status, 201, "{}", bound.text());
    server.shutdown().await;
}

#[tokio::test]
async fn commands_and_proxies_name_a_container_or_a_port() {
    let (server, mut client) = start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let containers = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    send(&mut client, Method::POST, pods, &pod).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    send(
        &mut client,
        Method::POST,
        "/api/v1/namespaces/default/services",
        &service,
    )
    .await;
    for (path, why) in [
        (
            "pods/p/exec?command=ls",
            "a container name must be specified for pod p, choose one of: [a b]",
        ),
        (
            "pods/p/exec?command=ls&container=z",
            "container z is not valid for pod p",
        ),
        ("pods/p/attach?container=a", "pod p does not have a host assigned"),
        ("pods/p:80/proxy/x", "address not allowed"),
        ("pods/ftp:p:80/proxy", "invalid pod request \"ftp:p:80\""),
        ("services/s:80/proxy", "no endpoints available for service \"s\""),
        (
            "services/s:81/proxy",
            "no service port 81 found for service \"s\"",
        ),
        ("services/none:80/proxy", "services \"none\" not found"),
        (
            "services/none:web/proxy",
            "no endpoints available for service \"none\"",
        ),
    ] {
        let path = format!("/api/v1/namespaces/default/{path}");
        let answer = send(&mut client, Method::GET, &path, &json!({})).await;
        assert_eq!(answer.json()["message"], why, "{path}");
    }
    server.shutdown().await;
}
