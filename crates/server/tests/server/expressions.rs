//! CEL rules and policies over HTTP: they apply to every verb that writes.

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use crate::client::{Answer, Client};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");

async fn connected(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

fn definition() -> Value {
    let spec = json!({"type": "object", "required": ["min", "max"], "properties": {
        "min": {"type": "integer"},
        "max": {"type": "integer"},
        "owner": {"type": "string", "maxLength": 20,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "owner is immutable"}]},
    }, "x-kubernetes-validations": [{"rule": "self.min <= self.max"}]});
    let status = json!({"type": "object", "properties": {"at": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status},
        "x-kubernetes-validations": [
            {"rule": "!has(self.status) || self.status.at <= self.spec.max", "message": "status is beyond max"}]});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

#[track_caller]
fn refused(answer: &Answer, why: &str) {
    assert_eq!(answer.status, 422, "{}", answer.text());
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert_eq!(message, format!("Widget.example.com \"w\" is invalid: {why}"));
}

#[tokio::test]
async fn every_write_is_validated_by_the_rules() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let defined = client
        .send(Method::POST, crds, &[], &definition().to_string())
        .await;
    assert_eq!(defined.status, 201, "{}", defined.text());

    let backwards = "spec: Invalid value: failed rule: self.min <= self.max";
    let wrong = widget(json!({"min": 2, "max": 1})).to_string();
    refused(&client.send(Method::POST, WIDGETS, &[], &wrong).await, backwards);
    let path = format!("{WIDGETS}/w");
    let applied = format!("{path}?fieldManager=test");
    refused(
        &client.send(Method::PATCH, &applied, &[APPLY], &wrong).await,
        backwards,
    );

    let right = widget(json!({"min": 1, "max": 2, "owner": "a"}));
    let created = client.send(Method::POST, WIDGETS, &[], &right.to_string()).await;
    assert_eq!(created.status, 201, "{}", created.text());

    let mut changed = created.json();
    changed["spec"]["min"] = json!(3);
    refused(
        &client.send(Method::PUT, &path, &[], &changed.to_string()).await,
        backwards,
    );
    let patch = json!({"spec": {"min": 3}}).to_string();
    refused(
        &client.send(Method::PATCH, &path, &[MERGE], &patch).await,
        backwards,
    );
    let patch = json!({"spec": {"owner": "b"}}).to_string();
    let immutable = "spec.owner: Invalid value: \"b\": owner is immutable";
    refused(
        &client.send(Method::PATCH, &path, &[MERGE], &patch).await,
        immutable,
    );
    let other = widget(json!({"min": 1, "max": 2, "owner": "b"})).to_string();
    let forced = format!("{applied}&force=true");
    refused(
        &client.send(Method::PATCH, &forced, &[APPLY], &other).await,
        immutable,
    );

    let status = format!("{path}/status");
    let patch = json!({"status": {"at": 3}}).to_string();
    let beyond = "<nil>: Invalid value: status is beyond max";
    refused(
        &client.send(Method::PATCH, &status, &[MERGE], &patch).await,
        beyond,
    );
    let patch = json!({"status": {"at": 2}}).to_string();
    let reported = client.send(Method::PATCH, &status, &[MERGE], &patch).await;
    assert_eq!(reported.status, 200, "{}", reported.text());
    server.shutdown().await;
}

#[tokio::test]
async fn an_active_policy_denies_and_warns() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    for (name, expression, action) in [
        (
            "deny",
            "!object.metadata.name.startsWith('x') || request.userInfo.username == 'nobody'",
            "Deny",
        ),
        ("warn", "has(object.metadata.labels)", "Warn"),
    ] {
        let policy = json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression}]}});
        let binding =
            json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": [action]}});
        for (plural, object) in [
            ("validatingadmissionpolicies", policy),
            ("validatingadmissionpolicybindings", binding),
        ] {
            let path = format!("{group}/{plural}");
            let created = client.send(Method::POST, &path, &[], &object.to_string()).await;
            assert_eq!(created.status, 201, "{}", created.text());
        }
    }
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"metadata": {"name": name}}).to_string();
    let refused = client.send(Method::POST, maps, &[], &map("xyz")).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert_eq!(
        refused.json()["message"],
        "configmaps \"xyz\" is forbidden: ValidatingAdmissionPolicy 'deny' with binding 'deny' denied request: failed \
         expression: !object.metadata.name.startsWith('x') || request.userInfo.username == 'nobody'"
    );
    let created = client.send(Method::POST, maps, &[], &map("abc")).await;
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(
        created.header("warning"),
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'warn' with binding 'warn': failed expression: \
         has(object.metadata.labels)\""
    );
    server.shutdown().await;
}
