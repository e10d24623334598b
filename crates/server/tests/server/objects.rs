//! Objects over HTTP: written, read in several forms, and kept across a restart.

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use crate::client::Client;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn connected(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

fn config_map(name: &str, value: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})
        .to_string()
}

#[tokio::test]
async fn an_object_can_be_created_changed_and_deleted() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;

    let created = client
        .send(Method::POST, CONFIG_MAPS, &[], &config_map("a", "1"))
        .await;
    assert_eq!(created.status, 201, "{}", created.text());
    let again = client
        .send(Method::POST, CONFIG_MAPS, &[], &config_map("a", "1"))
        .await;
    assert_eq!(again.status, 409, "{}", again.text());

    let path = format!("{CONFIG_MAPS}/a");
    let merge = [("content-type", "application/merge-patch+json")];
    let patched = client
        .send(Method::PATCH, &path, &merge, r#"{"data":{"k":"2"}}"#)
        .await;
    assert_eq!(patched.json()["data"]["k"], "2", "{}", patched.text());

    let deleted = client.send(Method::DELETE, &path, &[], "").await;
    assert_eq!(deleted.json()["status"], "Success", "{}", deleted.text());
    assert_eq!(client.get(&path).await.status, 404);
    server.shutdown().await;
}

#[tokio::test]
async fn an_object_is_answered_in_the_requested_form() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    client
        .send(Method::POST, CONFIG_MAPS, &[], &config_map("a", "1"))
        .await;
    let path = format!("{CONFIG_MAPS}/a");
    for (accept, content_type, start) in [
        ("application/json", "application/json", "{\"kind\":\"ConfigMap\""),
        (
            "application/yaml",
            "application/yaml",
            "apiVersion: v1\ndata:\n  k: \"1\"\n",
        ),
        (
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf",
            "k8s\0",
        ),
        (
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            "application/json",
            "{\"kind\":\"PartialObjectMetadata\"",
        ),
        (
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            "application/json",
            "{\"kind\":\"Table\"",
        ),
    ] {
        let answer = client.send(Method::GET, &path, &[("accept", accept)], "").await;
        assert_eq!(answer.header("content-type"), content_type);
        assert!(answer.text().starts_with(start), "{accept}: {}", answer.text());
    }
    server.shutdown().await;
}

#[tokio::test]
async fn large_responses_are_compressed_on_request() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let body = config_map("large", &"x".repeat(200 * 1024));
    client.send(Method::POST, CONFIG_MAPS, &[], &body).await;
    let path = format!("{CONFIG_MAPS}/large");
    let plain = client.get(&path).await;
    let small = client
        .send(Method::GET, &path, &[("accept-encoding", "gzip")], "")
        .await;
    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(small.header("content-encoding"), "gzip");
    assert!(small.body.len() < plain.body.len() / 10);
    server.shutdown().await;
}

#[tokio::test]
async fn a_connection_survives_an_unread_body() {
    let server = Server::builder().start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let mut client = Client::http1(pipe).await.with_token(&server);
    let unwanted = "x".repeat(100 * 1024);
    assert_eq!(
        client.send(Method::POST, "/version", &[], &unwanted).await.status,
        405
    );
    assert_eq!(client.get("/version").await.status, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn objects_outlive_their_server() {
    let directory = tempfile::tempdir().unwrap();
    let started = || Server::builder().data_dir(directory.path()).start();

    let server = started().await.unwrap();
    let mut client = connected(&server).await;
    let created = client
        .send(Method::POST, CONFIG_MAPS, &[], &config_map("a", "1"))
        .await
        .json();
    server.shutdown().await;

    let server = started().await.unwrap();
    let mut client = connected(&server).await;
    let kept: Value = client.get(&format!("{CONFIG_MAPS}/a")).await.json();
    assert_eq!(kept, created);
    let newer = client
        .send(Method::POST, CONFIG_MAPS, &[], &config_map("b", "1"))
        .await
        .json();
    let version = |object: &Value| -> u64 {
        let text = object["metadata"]["resourceVersion"].as_str().unwrap();
        text.parse().unwrap()
    };
    assert!(version(&newer) > version(&created));
    server.shutdown().await;
}

/// A kubeconfig, a client certificate and a service account token stay valid after a restart, even on another port.
#[tokio::test]
async fn a_server_keeps_its_identity_with_its_objects() {
    let directory = tempfile::tempdir().unwrap();
    let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let started = || {
        Server::builder()
            .data_dir(directory.path())
            .listen(any_port)
            .start()
    };

    let first = started().await.unwrap();
    let (authority, admin) = (first.authority_pem(), first.admin_token().reveal().to_owned());
    let mut client = connected(&first).await;
    let account = json!({"metadata": {"name": "robot"}}).to_string();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(
        client.send(Method::POST, accounts, &[], &account).await.status,
        201
    );
    let wanted = json!({"spec": {"expirationSeconds": 3600}}).to_string();
    let issued = client
        .send(Method::POST, &format!("{accounts}/robot/token"), &[], &wanted)
        .await
        .json();
    let token = issued["status"]["token"].as_str().unwrap();
    first.shutdown().await;

    let second = started().await.unwrap();
    assert_eq!(second.authority_pem(), authority);
    assert_eq!(second.admin_token().reveal(), admin);
    let review = json!({"spec": {"token": token}}).to_string();
    let mut client = connected(&second).await;
    let reviewed = client
        .send(
            Method::POST,
            "/apis/authentication.k8s.io/v1/tokenreviews",
            &[],
            &review,
        )
        .await
        .json();
    assert_eq!(
        reviewed["status"]["user"]["username"],
        "system:serviceaccount:default:robot"
    );
    second.shutdown().await;
}

#[tokio::test]
async fn duplicate_owner_references_are_removed() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"});
    let body = |owners: &[&Value]| json!({"metadata": {"name": "a", "ownerReferences": owners}}).to_string();
    let named_again = "contains duplicate entries; API server dedups owner references in 1.20+, and may reject such \
                       requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u1, u1";
    let path = format!("{CONFIG_MAPS}/a");
    for (method, path) in [(Method::POST, CONFIG_MAPS), (Method::PUT, &path)] {
        let answer = client
            .send(method, path, &[], &body(&[&owner, &owner, &owner]))
            .await;
        assert_eq!(answer.json()["metadata"]["ownerReferences"], json!([owner]));
        let warning = format!("299 - \".metadata.ownerReferences {named_again}\"");
        assert_eq!(answer.header("warning"), warning);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn finalizing_a_namespace_leaves_its_status_alone() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let body = r#"{"metadata":{"name":"team"}}"#;
    client.send(Method::POST, "/api/v1/namespaces", &[], body).await;
    let body = r#"{"metadata":{"name":"team"},"spec":{"finalizers":["kubernetes","example.com/mine"]}}"#;
    let path = "/api/v1/namespaces/team/finalize";
    let finalized = client.send(Method::PUT, path, &[], body).await.json();
    assert_eq!(finalized["status"], json!({"phase": "Active"}));
    assert_eq!(
        finalized["spec"]["finalizers"],
        json!(["kubernetes", "example.com/mine"])
    );
    server.shutdown().await;
}

#[tokio::test]
async fn deleting_a_job_warns_that_its_pods_stay() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    for (query, warned) in [("", true), ("?propagationPolicy=Orphan", false)] {
        let answer = client
            .send(Method::DELETE, &format!("{jobs}/none{query}"), &[], "")
            .await;
        assert_eq!(answer.status, 404);
        assert_eq!(
            answer.header("warning").contains("child pods are preserved"),
            warned
        );
        let answer = client
            .send(Method::DELETE, &format!("{jobs}{query}"), &[], "")
            .await;
        assert_eq!(
            answer.header("warning").contains("child pods are preserved"),
            warned
        );
    }
    server.shutdown().await;
}

#[tokio::test]
async fn many_warnings_are_shortened() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let unknown = |number: usize| (format!("{number}{}", "x".repeat(300)), Value::Null);
    let mut body = json!({"metadata": {"name": "a"}});
    body.as_object_mut().unwrap().extend((0..30).map(unknown));
    let answer = client
        .send(Method::POST, CONFIG_MAPS, &[], &body.to_string())
        .await;
    let warnings: Vec<_> = answer.headers.get_all("warning").iter().collect();
    assert!(warnings.len() > 10, "{}", warnings.len());
    assert!(warnings.iter().map(|warning| warning.len()).sum::<usize>() <= 4096);
    assert!(warnings.iter().all(|warning| warning.len() < 270));
    server.shutdown().await;
}

#[tokio::test]
async fn a_bound_pod_has_the_zone_and_region_of_its_node() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let labels =
        json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"});
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "metadata": {"name": "p", "labels": {"app": "a", "topology.kubernetes.io/zone": "mine"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    });
    for (path, object) in [
        (
            "/api/v1/nodes",
            json!({"metadata": {"name": "n", "labels": labels}}),
        ),
        (pods, pod),
        ("/api/v1/namespaces/default/pods/p/binding", binding),
    ] {
        let created = client.send(Method::POST, path, &[], &object.to_string()).await;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    let bound = client.get(&format!("{pods}/p")).await.json();
    assert_eq!(bound["spec"]["nodeName"], "n");
    let expected =
        json!({"app": "a", "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
    assert_eq!(bound["metadata"]["labels"], expected);
    server.shutdown().await;
}
