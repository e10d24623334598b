//! The requests of kube-controller-manager and kube-scheduler at start, as listed in
//! docs/with-kubernetes-controllers.md.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::Server;

use crate::client::Client;
use crate::lines::Lines;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const METADATA: (&str, &str) = (
    "accept",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
);

fn lease(name: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"}})
}

#[tokio::test]
async fn objects_that_kubernetes_components_need_at_start_exist() {
    let server = Server::builder().listen(LOCAL).service_accounts(true);
    let server = server.start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let mut client = Client::http2(pipe).await.with_token(&server);
    for path in ["/healthz", "/version", "/api", "/apis", "/openapi/v3"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    let system = "/api/v1/namespaces/kube-system";
    let trust = client
        .get(&format!("{system}/configmaps/extension-apiserver-authentication"))
        .await
        .json();
    for key in [
        "client-ca-file",
        "requestheader-client-ca-file",
        "requestheader-username-headers",
    ] {
        assert!(trust["data"][key].is_string(), "{key}");
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "generic-garbage-collector"}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "LeaderElection", "action": "LeaderElection", "type": "Normal",
        "reportingController": "k", "reportingInstance": "k-1", "note": "became leader",
        "regarding": {"kind": "Lease", "namespace": "kube-system", "name": "kube-scheduler", "apiVersion": "coordination.k8s.io/v1"}});
    let access = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "zoe", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}});
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let requests = [
        (leases.to_owned(), lease("kube-controller-manager")),
        (leases.to_owned(), lease("kube-scheduler")),
        (format!("{system}/serviceaccounts"), account),
        (
            format!("{system}/serviceaccounts/generic-garbage-collector/token"),
            token,
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/kube-system/events".to_owned(),
            event,
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(),
            access,
        ),
        ("/apis/authentication.k8s.io/v1/tokenreviews".to_owned(), review),
    ];
    for (path, body) in requests {
        let answer = client.send(Method::POST, &path, &[], &body.to_string()).await;
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
    }
    let list = client
        .send(Method::GET, "/apis/apps/v1/deployments", &[METADATA], "")
        .await;
    assert_eq!(list.json()["kind"], "PartialObjectMetadataList");
    let path = format!(
        "{system}/configmaps?watch=true&fieldSelector=metadata.name%3Dextension-apiserver-authentication"
    );
    let pipe = server.connector().connect().await.unwrap();
    let mut watching = Client::http2(pipe).await.with_token(&server);
    let mut lines = Lines::open(&mut watching, &path).await;
    assert_eq!(lines.event().await, "ADDED extension-apiserver-authentication");
    // The roles for programs with delegated authentication.
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    for path in [
        "clusterroles/system:auth-delegator",
        "namespaces/kube-system/roles/extension-apiserver-authentication-reader",
    ] {
        assert_eq!(client.get(&format!("{roles}/{path}")).await.status, 200, "{path}");
    }
    server.shutdown().await;
}
