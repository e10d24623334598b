//! What a right allows, and what it must not be made to allow.

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use crate::client::{Answer, Client};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server, and its administrator, who can also speak as Bob.
struct Cluster {
    server: Handle,
    client: Client,
}

impl Cluster {
    /// Bob may do what the rules say, everywhere.
    async fn start(rules: Value) -> Self {
        let server = Server::builder().in_memory().start().await.unwrap();
        let connection = server.connector().connect().await.unwrap();
        let client = Client::http1(connection).await.with_token(&server);
        let mut cluster = Self { server, client };
        let role = json!({"metadata": {"name": "bob"}, "rules": rules});
        let binding = json!({
            "metadata": {"name": "bob"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bob"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
        });
        for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let path = format!("{RBAC}/{plural}");
            cluster.create(&path, &object).await;
        }
        cluster
    }

    async fn create(&mut self, path: &str, object: &Value) {
        let body = object.to_string();
        let answer = self.client.send(Method::POST, path, &[], &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    async fn as_bob(&mut self, method: Method, path: &str, content_type: &str, body: &Value) -> Answer {
        let headers = [("impersonate-user", "bob"), ("content-type", content_type)];
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.client.send(method, path, &headers, &body).await
    }
}

#[tokio::test]
async fn a_write_that_creates_takes_the_right_to_create() {
    let mut cluster = Cluster::start(json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update", "patch"]},
    ]))
    .await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {},
    });
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let (put, apply) = (
        format!("{leases}/a"),
        format!("{leases}/a?fieldManager=bob&force=true"),
    );
    let (json, yaml) = ("application/json", "application/apply-patch+yaml");
    let refused = cluster.as_bob(Method::PUT, &put, json, &lease).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let refused = cluster.as_bob(Method::PATCH, &apply, yaml, &lease).await;
    assert_eq!(refused.status, 403, "{}", refused.text());

    cluster.create(leases, &lease).await;
    let applied = cluster.as_bob(Method::PATCH, &apply, yaml, &lease).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_right_to_one_object_lists_no_others() {
    let mut cluster = Cluster::start(json!([
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["list"]},
    ]))
    .await;
    for (selector, expected) in [
        ("metadata.name%3Da", 200),
        ("metadata.name%3Db", 403),
        ("metadata.name%3Da,x=%zz", 403),
        ("metadata.name%3Da,x=;", 403),
        ("x=;&fieldSelector=metadata.name%3Da", 200),
    ] {
        let path = format!("/api/v1/namespaces/default/secrets?fieldSelector={selector}");
        let answer = cluster
            .as_bob(Method::GET, &path, "application/json", &Value::Null)
            .await;
        assert_eq!(answer.status, expected, "{selector}: {}", answer.text());
    }
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_review_with_odd_metadata_is_answered() {
    let mut cluster = Cluster::start(json!([])).await;
    let review = json!({
        "metadata": "odd",
        "spec": {"user": "bob", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}},
    });
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    cluster.create(path, &review).await;
    cluster.server.shutdown().await;
}
