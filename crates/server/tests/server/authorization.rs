//! RBAC permissions, and attempts to exceed them.

use ::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use crate::client::{Answer, Client};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A server and its administrator, who can impersonate Bob.
struct Cluster {
    server: Handle,
    client: Client,
}

impl Cluster {
    /// Bob has these rules in the whole cluster.
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
async fn a_write_that_creates_requires_permission_to_create() {
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
async fn who_grants_too_much_learns_nothing_else_about_a_role() {
    let mut cluster = Cluster::start(json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
    ]))
    .await;
    let path = format!("{RBAC}/namespaces/default/roles");
    let secrets = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    for (rules, status) in [(json!([]), 422), (secrets, 403)] {
        let invalid = json!({"metadata": {"name": "r/r"}, "rules": rules});
        let answer = cluster
            .as_bob(Method::POST, &path, "application/json", &invalid)
            .await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn who_changes_a_role_must_have_what_it_grants() {
    let mut cluster = Cluster::start(json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "patch"]},
    ]))
    .await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": "r"}, "rules": rules});
    cluster.create(&format!("{RBAC}/clusterroles"), &role).await;
    let path = format!("{RBAC}/clusterroles/r");
    for (metadata, status) in [
        (json!({"labels": {"a": "b"}}), 403),
        (json!({"finalizers": ["example.com/wait"]}), 200),
        (json!({"finalizers": null}), 200),
    ] {
        let patch = json!({"metadata": metadata});
        let answer = cluster
            .as_bob(Method::PATCH, &path, "application/merge-patch+json", &patch)
            .await;
        assert_eq!(answer.status, status, "{patch} {}", answer.text());
    }
    let select = json!([{"matchLabels": {"a": "b"}}]);
    // A rule without selectors is invalid, but it grants nothing.
    for (selectors, status) in [(select, 403), (json!([]), 422)] {
        let role =
            json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": selectors}});
        let answer = cluster
            .as_bob(
                Method::POST,
                &format!("{RBAC}/clusterroles?dryRun=All"),
                "application/json",
                &role,
            )
            .await;
        assert_eq!(answer.status, status, "{role} {}", answer.text());
    }
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn permission_for_one_object_does_not_list_others() {
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
async fn a_review_with_unusual_metadata_is_answered() {
    let mut cluster = Cluster::start(json!([])).await;
    let review = json!({
        "metadata": "odd",
        "spec": {"user": "bob", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}},
    });
    let path = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    cluster.create(path, &review).await;
    cluster.server.shutdown().await;
}

/// Permission on a certificate request and permission on its signer are separate.
#[tokio::test]
async fn acting_for_a_signer_requires_permission_on_it() {
    let certificates = "certificates.k8s.io";
    let mut cluster = Cluster::start(json!([
        {"apiGroups": [certificates], "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"], "verbs": ["update"]},
        {"apiGroups": [certificates], "resources": ["signers"], "resourceNames": ["mine.example/*"], "verbs": ["approve"]},
        {"apiGroups": [certificates], "resources": ["signers"], "resourceNames": ["other.example/b"], "verbs": ["sign"]},
    ]))
    .await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    let pem = STANDARD.encode(request.pem().unwrap());
    for (name, signer) in [("a", "mine.example/a"), ("b", "other.example/b")] {
        let spec = json!({"request": pem, "signerName": signer, "usages": ["client auth"]});
        cluster
            .create(requests, &json!({"metadata": {"name": name}, "spec": spec}))
            .await;
    }
    let decided = |name: &str| {
        json!({
            "metadata": {"name": name}, "spec": {"request": pem, "signerName": "mine.example/a", "usages": ["client auth"]},
            "status": {"conditions": [{"type": "Approved", "status": "True"}]},
        })
    };
    let failed = |name: &str| {
        let mut request = decided(name);
        request["status"]["conditions"][0]["type"] = json!("Failed");
        request
    };
    let word = |done: &str, signer: &str, name: &str| {
        format!(
            "certificatesigningrequests.certificates.k8s.io \\\"{name}\\\" is forbidden: user not permitted to {done} \
             requests with signerName \\\"{signer}\\\""
        )
    };
    for (path, body, refused) in [
        ("a/approval", decided("a"), None),
        (
            "b/approval",
            decided("b"),
            Some(word("approve", "other.example/b", "b")),
        ),
        ("a/status", failed("a"), Some(word("sign", "mine.example/a", "a"))),
        ("b/status", failed("b"), None),
    ] {
        let path = format!("{requests}/{path}");
        let answer = cluster
            .as_bob(Method::PUT, &path, "application/json", &body)
            .await;
        match refused {
            None => assert_eq!(answer.status, 200, "{path}: {}", answer.text()),
            Some(why) => {
                assert_eq!(answer.status, 403, "{path}");
                assert!(answer.text().contains(&why), "{why}\n{}", answer.text());
            }
        }
    }
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_token_from_a_file_is_valid_only_for_this_server() {
    const ISSUER: &str = "https://kubernetes.default.svc";
    let mut cluster = Cluster::start(json!([])).await;
    let token = cluster.server.admin_token().reveal().to_owned();
    for (audiences, is_known, meant) in [
        (json!([]), true, json!([ISSUER])),
        (json!([ISSUER, "other"]), true, json!([ISSUER])),
        (json!(["other"]), false, Value::Null),
    ] {
        let review = json!({"spec": {"token": token, "audiences": audiences}}).to_string();
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer = cluster.client.send(Method::POST, path, &[], &review).await.json();
        assert_eq!(answer["status"]["authenticated"] == true, is_known, "{answer}");
        assert_eq!(answer["status"]["audiences"], meant, "{answer}");
    }
}
