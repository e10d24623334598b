//! Every kind of write passes webhooks, and other writes do not wait during the calls.

use ::http::Method;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_server::Server;

use super::endpoint::{Endpoint, Reply};
use super::{Cluster, MAPS, MERGE, MUTATING, VALIDATING, configuration, connected, map, rule};
use crate::client::Client;

const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// The reviews since the last call: `CREATE configmaps one`.
fn seen(endpoint: &Endpoint) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let requests = endpoint.take_seen().into_iter();
    let lines = requests.map(|request| {
        let resource = match text(&request["subResource"]) {
            part if part.is_empty() => text(&request["resource"]["resource"]),
            part => format!("{}/{part}", text(&request["resource"]["resource"])),
        };
        let kind = text(&request["kind"]["kind"]);
        format!(
            "{} {resource} {kind} {}",
            text(&request["operation"]),
            text(&request["name"])
        )
    });
    lines.collect()
}

fn widgets(group: &str, schema: Value) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema, "subresources": {"status": {}}});
    json!({
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version("v1"), version("v2")],
            "names": {"plural": "widgets", "kind": "Widget"},
        },
    })
}

fn sized() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}})
}

#[tokio::test]
async fn every_verb_that_writes_is_reviewed() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    let rules = json!([rule("*", "*/*")]);
    cluster
        .create(VALIDATING, configuration("a", &endpoint, json!({"rules": rules})))
        .await;
    let one = format!("{MAPS}/one");
    let created = cluster.create(MAPS, map("one")).await;
    cluster
        .client
        .send(Method::PUT, &one, &[], &created.to_string())
        .await;
    cluster
        .patch(&one, json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    let applied = format!("{one}?fieldManager=test&force=true");
    cluster
        .client
        .send(Method::PATCH, &applied, &[APPLY], &map("one").to_string())
        .await;
    let new = applied.replace("/one", "/two");
    cluster
        .client
        .send(Method::PATCH, &new, &[APPLY], &map("two").to_string())
        .await;
    cluster.delete(MAPS).await;
    assert_eq!(
        seen(&endpoint),
        [
            "CREATE configmaps ConfigMap one",
            "UPDATE configmaps ConfigMap one",
            "UPDATE configmaps ConfigMap one",
            "UPDATE configmaps ConfigMap one",
            "CREATE configmaps ConfigMap two",
            "DELETE configmaps ConfigMap ",
            "DELETE configmaps ConfigMap ",
        ]
    );
    let namespace = json!({"metadata": {"name": "team"}});
    let namespace = cluster.create("/api/v1/namespaces", namespace).await;
    assert_eq!(seen(&endpoint), ["CREATE namespaces Namespace team"]);
    let path = "/api/v1/namespaces/team";
    cluster
        .client
        .send(
            Method::PUT,
            &format!("{path}/status"),
            &[],
            &namespace.to_string(),
        )
        .await;
    assert_eq!(seen(&endpoint), ["UPDATE namespaces/status Namespace team"]);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn subresource_writes_are_reviewed_with_their_kind() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    let containers = json!([{"name": "main", "image": "main:1"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    cluster.create(PODS, pod).await;
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let deployment = json!({"metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template}});
    cluster.create(DEPLOYMENTS, deployment).await;
    let account = json!({"metadata": {"name": "robot"}});
    cluster.create(ACCOUNTS, account).await;
    let rules = json!([rule("*", "*/*")]);
    cluster
        .create(VALIDATING, configuration("a", &endpoint, json!({"rules": rules})))
        .await;

    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    cluster.create(&format!("{PODS}/p/binding"), binding).await;
    cluster
        .create(&format!("{ACCOUNTS}/robot/token"), json!({}))
        .await;
    let scaled = cluster
        .patch(
            &format!("{DEPLOYMENTS}/d/scale"),
            json!({"spec": {"replicas": 5}}),
        )
        .await;
    assert_eq!(scaled.json()["spec"]["replicas"], 5);
    let eviction = json!({"metadata": {"name": "p"}});
    cluster.create(&format!("{PODS}/p/eviction"), eviction).await;
    assert_eq!(
        seen(&endpoint),
        [
            "CREATE pods/binding Binding p",
            "CREATE serviceaccounts/token TokenRequest robot",
            "UPDATE deployments/scale Scale d",
            "CREATE pods/eviction Eviction p",
        ]
    );
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn subresource_writes_can_be_mutated() {
    let endpoint = Endpoint::start(|request| match request["subResource"].as_str() {
        Some("scale") => Reply::patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 3}])),
        _ => Reply::patch(&json!([{"op": "replace", "path": "/target/name", "value": "better"}])),
    })
    .await;
    let mut cluster = Cluster::start().await;
    let rules = json!([rule("UPDATE", "widgets/scale"), rule("CREATE", "pods/binding")]);
    cluster
        .create(MUTATING, configuration("a", &endpoint, json!({"rules": rules})))
        .await;
    let mut definition = widgets("example.com", sized());
    let paths = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    definition["spec"]["versions"][0]["subresources"]["scale"] = paths;
    cluster.create(DEFINITIONS, definition).await;
    cluster.create(WIDGETS, widget("w")).await;
    let scaled = cluster
        .patch(&format!("{WIDGETS}/w/scale"), json!({"spec": {"replicas": 9}}))
        .await;
    assert_eq!(scaled.json()["spec"]["replicas"], 3, "{}", scaled.text());

    let containers = json!([{"name": "main", "image": "main:1"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    cluster.create(PODS, pod).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "good"}});
    cluster.create(&format!("{PODS}/p/binding"), binding).await;
    let bound = cluster.client.get(&format!("{PODS}/p")).await.json();
    assert_eq!(bound["spec"]["nodeName"], "better");
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn webhook_configurations_are_not_reviewed() {
    let endpoint = Endpoint::start(|_| Reply::Close).await;
    let mut cluster = Cluster::start().await;
    let rules = json!([rule("*", "*/*")]);
    for name in ["a", "b"] {
        cluster
            .create(
                VALIDATING,
                configuration(name, &endpoint, json!({"rules": rules})),
            )
            .await;
    }
    for name in ["a", "b"] {
        assert_eq!(cluster.delete(&format!("{VALIDATING}/{name}")).await.status, 200);
    }
    assert!(endpoint.take_seen().is_empty());
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_review_has_the_version_of_the_matching_rule() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    cluster.create(DEFINITIONS, widgets("example.com", sized())).await;
    let mut rules = json!([rule("CREATE", "widgets")]);
    rules[0]["apiVersions"] = json!(["v2"]);
    let parts = json!({"rules": rules});
    cluster
        .create(VALIDATING, configuration("a", &endpoint, parts))
        .await;
    cluster.create(WIDGETS, widget("w")).await;
    let request = endpoint.take_seen().remove(0);
    let kind = |version: &str| json!({"group": "example.com", "version": version, "kind": "Widget"});
    assert_eq!(
        (
            &request["kind"],
            &request["requestKind"],
            &request["object"]["apiVersion"]
        ),
        (&kind("v2"), &kind("v1"), &json!("example.com/v2"))
    );
    let exact = json!({"rules": rules, "matchPolicy": "Exact"});
    cluster.delete(&format!("{VALIDATING}/a")).await;
    cluster
        .create(VALIDATING, configuration("a", &endpoint, exact))
        .await;
    cluster.create(WIDGETS, widget("v")).await;
    assert!(endpoint.take_seen().is_empty());
    cluster.server.shutdown().await;
}

/// A cluster whose webhook about creates writes this when it reviews `first`, and then allows it.
async fn writing_while_asked(
    resource: &str,
    method: Method,
    path: &'static str,
    object: Value,
) -> (Cluster, Endpoint) {
    let server = Server::builder().start().await.unwrap();
    let connector = server.connector();
    let token = server.admin_token().reveal().to_owned();
    let endpoint = Endpoint::start_async(move |request| {
        let (connector, token, object) = (connector.clone(), token.clone(), object.to_string());
        let method = method.clone();
        async move {
            if request["name"] == "first" {
                let pipe = connector.connect().await.unwrap();
                let mut client = Client::http2(pipe).await.with_bearer(&token);
                let headers: &[_] = match method {
                    Method::PATCH => &[MERGE],
                    _ => &[],
                };
                let written = client.send(method, path, headers, &object).await;
                assert!(matches!(written.status, 200 | 201), "{}", written.text());
            }
            Reply::allow()
        }
        .boxed()
    })
    .await;
    let client = connected(&server).await;
    let mut cluster = Cluster { server, client };
    let parts = json!({"rules": [rule("CREATE", resource)]});
    cluster
        .create(VALIDATING, configuration("a", &endpoint, parts))
        .await;
    (cluster, endpoint)
}

#[tokio::test]
async fn other_services_do_not_wait_for_a_webhook_call() {
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let (mut cluster, endpoint) =
        writing_while_asked("services", Method::POST, SERVICES, service("second")).await;
    let first = cluster.create(SERVICES, service("first")).await;
    let second = cluster.client.get(&format!("{SERVICES}/second")).await.json();
    assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
    assert_eq!(
        seen(&endpoint),
        ["CREATE services Service first", "CREATE services Service second"]
    );
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_kind_can_be_defined_during_a_webhook_call() {
    let (mut cluster, endpoint) = writing_while_asked(
        "widgets",
        Method::POST,
        DEFINITIONS,
        widgets("example.org", sized()),
    )
    .await;
    cluster.create(DEFINITIONS, widgets("example.com", sized())).await;
    cluster.create(WIDGETS, widget("first")).await;
    assert_eq!(seen(&endpoint), ["CREATE widgets Widget first"]);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_write_whose_kind_changed_during_a_webhook_call_must_be_retried() {
    let another = json!({"spec": widgets("example.com", json!({"type": "object"}))["spec"]});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let (mut cluster, endpoint) = writing_while_asked("widgets", Method::PATCH, path, another).await;
    cluster.create(DEFINITIONS, widgets("example.com", sized())).await;
    let answer = cluster.post(WIDGETS, widget("first")).await;
    assert_eq!(
        (answer.status, &*answer.header("retry-after")),
        (500, "1"),
        "{}",
        answer.text()
    );
    assert_eq!(answer.json()["reason"], "ServerTimeout");
    cluster.create(WIDGETS, widget("first")).await;
    assert_eq!(endpoint.take_seen().len(), 2);
    cluster.server.shutdown().await;
}

/// The namespace of an object selects webhooks, whatever its kind is called.
#[tokio::test]
async fn an_object_of_a_custom_kind_called_namespace_has_a_namespace() {
    let endpoint = Endpoint::start(|_| Reply::allow()).await;
    let mut cluster = Cluster::start().await;
    let mut definition = widgets("example.com", sized());
    definition["spec"]["names"]["kind"] = json!("Namespace");
    cluster.create(DEFINITIONS, definition).await;
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    let parts = json!({"rules": [rule("*", "widgets")], "namespaceSelector": selector});
    cluster
        .create(VALIDATING, configuration("a", &endpoint, parts))
        .await;
    let mut object = widget("w");
    object["kind"] = json!("Namespace");
    cluster.create(WIDGETS, object).await;
    let seen = endpoint.take_seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0]["namespace"], "default");
    cluster.server.shutdown().await;
}
