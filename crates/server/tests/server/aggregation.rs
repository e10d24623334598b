//! Aggregated APIs: requests are forwarded with the user's identity, over a connection with the front-proxy
//! certificate.

mod extension;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use ::http::Method;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watchkeeper_server::{Handle, Server, Tokens};

use self::extension::{Extension, GROUP, Manner, ROOT};
use crate::client::Client;
use crate::lines::Lines;

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const FLUNDERS: &str = "/apis/wardle.example.com/v1/namespaces/default/flunders";
const AGGREGATED: (&str, &str) = (
    "accept",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
);

struct Cluster {
    server: Handle,
    client: Client,
}

impl Cluster {
    async fn start() -> Self {
        let mut tokens = Tokens::default();
        tokens.add_csv("dave-token,dave,d-1,\"dev\"").unwrap();
        let server = Server::builder().listen(LOCAL).tokens(tokens);
        let server = server.start().await.unwrap();
        let client = connected(&server).await;
        Self { server, client }
    }

    async fn create(&mut self, path: &str, object: Value) -> Value {
        let body = object.to_string();
        let created = self.client.send(Method::POST, path, &[], &body).await;
        assert_eq!(created.status, 201, "{}", created.text());
        created.json()
    }

    /// The published authority of front proxies.
    async fn proxies(&mut self) -> String {
        let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        let data = &self.client.get(path).await.json()["data"];
        let words = |key: &str| data[format!("requestheader-{key}")].as_str().unwrap().to_owned();
        assert_eq!(words("allowed-names"), r#"["front-proxy-client"]"#);
        assert_eq!(words("username-headers"), r#"["X-Remote-User"]"#);
        assert_eq!(words("uid-headers"), r#"["X-Remote-Uid"]"#);
        assert_eq!(words("extra-headers-prefix"), r#"["X-Remote-Extra-"]"#);
        words("client-ca-file")
    }

    /// Starts an extension server and registers it through a service for this machine.
    async fn with_extension(&mut self, manner: Manner) -> Extension {
        let proxies = self.proxies().await;
        let extension = Extension::start(manner, &proxies).await;
        self.create("/api/v1/namespaces/default/services", external_name())
            .await;
        let service = api_service(extension.port(), json!({"caBundle": extension.bundle()}));
        self.create(API_SERVICES, service).await;
        extension
    }

    /// Waits until the condition of the APIService has a reason; returns its message.
    async fn reason(&mut self, reason: &str) -> String {
        let mut watching = connected(&self.server).await;
        let name = format!("v1.{GROUP}");
        let path = format!("{API_SERVICES}?watch=true&fieldSelector=metadata.name%3D{name}");
        let mut lines = Lines::open(&mut watching, &path).await;
        loop {
            let event = lines.next().await.unwrap();
            let condition = &event["object"]["status"]["conditions"][0];
            if condition["reason"] == reason {
                let is_available = matches!(reason, "Passed" | "Local");
                assert_eq!(condition["status"], if is_available { "True" } else { "False" });
                return condition["message"].as_str().unwrap().to_owned();
            }
        }
    }
}

async fn connected(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

fn external_name() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wardle"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}})
}

fn api_service(port: u16, parts: Value) -> Value {
    let mut spec = json!({
        "group": GROUP, "version": "v1", "groupPriorityMinimum": 1500, "versionPriority": 15,
        "service": {"namespace": "default", "name": "wardle", "port": port},
    });
    for (name, value) in parts.as_object().unwrap() {
        spec[name] = value.clone();
    }
    json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{GROUP}")}, "spec": spec})
}

#[tokio::test]
async fn requests_are_forwarded_with_the_users_identity() {
    let mut cluster = Cluster::start().await;
    let extension = cluster.with_extension(Manner::Usual).await;
    assert_eq!(cluster.reason("Passed").await, "all checks passed");
    extension.take_seen();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "flunders"},
        "rules": [{"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["create"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "flunders"}, "subjects": [{"kind": "Group", "name": "dev"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flunders"}});
    cluster
        .create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        .await;
    cluster
        .create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        .await;

    let pipe = cluster.server.connector().connect().await.unwrap();
    let mut dave = Client::http2(pipe).await.with_bearer("dave-token");
    // Authorization precedes forwarding.
    let refused = dave.get(FLUNDERS).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(extension.take_seen().is_empty());

    let claims = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-custom", "kept"),
    ];
    let body = json!({"kind": "Flunder", "metadata": {"name": "a"}}).to_string();
    let path = format!("{FLUNDERS}?fieldManager=me");
    let created = dave.send(Method::POST, &path, &claims, &body).await;
    assert_eq!((created.status, created.text()), (201, body.clone()));
    assert_eq!(created.header("content-type"), "application/json");
    let [seen] = &extension.take_seen()[..] else {
        panic!("one request")
    };
    assert!(seen.is_from_proxy, "the client certificate is sent");
    assert_eq!((&seen.method, &*seen.path), (&Method::POST, &*path));
    assert_eq!(seen.body, body);
    let all = |name: &str| -> Vec<&str> {
        let lines = seen.headers.get_all(name).iter();
        lines.map(|line| line.to_str().unwrap()).collect()
    };
    assert_eq!(all("x-remote-user"), ["dave"]);
    assert_eq!(all("x-remote-uid"), ["d-1"]);
    assert_eq!(all("x-remote-group"), ["dev", "system:authenticated"]);
    assert_eq!(all("authorization"), [""; 0]);
    assert_eq!(all("host"), ["wardle.default.svc"]);
    assert_eq!(all("x-custom"), ["kept"]);

    // The impersonated user is forwarded.
    let as_zoe = [("impersonate-user", "zoe")];
    assert_eq!(
        cluster
            .client
            .send(Method::GET, FLUNDERS, &as_zoe, "")
            .await
            .status,
        403
    );
    let list = cluster.client.get(FLUNDERS).await;
    assert_eq!(list.json()["kind"], "FlunderList");
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_watch_is_streamed_and_ends_with_the_server() {
    let mut cluster = Cluster::start().await;
    let extension = cluster.with_extension(Manner::Usual).await;
    cluster.reason("Passed").await;
    let mut watching = connected(&cluster.server).await;
    let mut lines = Lines::open(&mut watching, &format!("{FLUNDERS}?watch=true")).await;
    assert_eq!(lines.next().await.unwrap()["type"], "BOOKMARK");
    for name in ["a", "b"] {
        extension.tell(json!({"type": "ADDED", "object": {"metadata": {"name": name}}}));
        assert_eq!(lines.event().await, format!("ADDED {name}"));
    }
    cluster.server.shutdown().await;
    assert!(lines.next().await.is_err());
}

#[tokio::test]
async fn an_upgraded_connection_is_joined() {
    let mut cluster = Cluster::start().await;
    let _extension = cluster.with_extension(Manner::Usual).await;
    cluster.reason("Passed").await;
    let pipe = cluster.server.connector().connect().await.unwrap();
    let mut client = Client::http1(pipe).await.with_token(&cluster.server);
    let headers = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let path = format!("{FLUNDERS}/a/exec");
    let answer = client.open(Method::POST, &path, &headers, "").await;
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["upgrade"], "SPDY/3.1");
    let mut joined = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    joined.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    joined.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"HELLO");
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn discovery_and_openapi_include_the_other_server() {
    for manner in [Manner::Usual, Manner::Old] {
        let mut cluster = Cluster::start().await;
        let _extension = cluster.with_extension(manner).await;
        cluster.reason("Passed").await;
        let groups = cluster.client.get("/apis").await.json();
        let names: Vec<&str> = groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(*names.last().unwrap(), GROUP, "after the built-in ones");
        let group = cluster.client.get(&format!("/apis/{GROUP}")).await.json();
        assert_eq!(group["preferredVersion"]["groupVersion"], format!("{GROUP}/v1"));
        let resources = cluster.client.get(ROOT).await.json();
        assert_eq!(resources["resources"][0]["name"], "flunders");
        let aggregated = cluster
            .client
            .send(Method::GET, "/apis", &[AGGREGATED], "")
            .await
            .json();
        let items = aggregated["items"].as_array().unwrap();
        let version = &items.last().unwrap()["versions"][0];
        assert_eq!(version["freshness"], "Current");
        let flunders = &version["resources"][0];
        assert_eq!(flunders["resource"], "flunders");
        assert_eq!(
            flunders["responseKind"],
            json!({"group": GROUP, "version": "v1", "kind": "Flunder"})
        );
        let root = cluster.client.get("/").await.json();
        assert!(root["paths"].as_array().unwrap().contains(&json!(ROOT)));

        let index = cluster.client.get("/openapi/v3").await.json();
        let url = &index["paths"]["apis/wardle.example.com/v1"]["serverRelativeURL"];
        let v2 = cluster.client.get("/openapi/v2").await.json();
        let path = &v2["paths"][format!("{ROOT}/flunders")];
        match manner {
            Manner::Usual => {
                let document = cluster.client.get(url.as_str().unwrap()).await.json();
                assert_eq!(document["of"], GROUP);
                assert_eq!(
                    path["get"]["responses"]["200"]["schema"]["$ref"],
                    "#/definitions/com.example.wardle.v1.Flunder"
                );
                assert!(v2["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
            }
            _ => assert!(url.is_null() && path.is_null()),
        }
        cluster.server.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable_until_it_comes_back() {
    let mut cluster = Cluster::start().await;
    let extension = cluster.with_extension(Manner::Usual).await;
    cluster.reason("Passed").await;
    let port = extension.port();
    drop(extension);
    let answer = cluster.client.get(FLUNDERS).await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().starts_with("error trying to reach service: "),
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");

    // The service changes, so it is checked again.
    let changed = json!({"spec": {"externalName": "127.0.0.1"}}).to_string();
    let merge = [("content-type", "application/merge-patch+json")];
    let path = "/api/v1/namespaces/default/services/wardle";
    assert_eq!(
        cluster
            .client
            .send(Method::PATCH, path, &merge, &changed)
            .await
            .status,
        200
    );
    let message = cluster.reason("FailedDiscoveryCheck").await;
    let url = format!("https://127.0.0.1:{port}{ROOT}");
    assert!(
        message.starts_with(&format!(
            "failing or missing response from {url}: Get {url:?}: dial tcp "
        )),
        "{message}"
    );
    assert!(message.ends_with("connect: connection refused"), "{message}");
    let answer = cluster.client.get(FLUNDERS).await;
    assert_eq!(
        (answer.status, answer.text()),
        (503, "service unavailable\n".to_owned())
    );
    // Its last known resources stay in discovery.
    let aggregated = cluster
        .client
        .send(Method::GET, "/apis", &[AGGREGATED], "")
        .await
        .json();
    let version = &aggregated["items"].as_array().unwrap().last().unwrap()["versions"][0];
    assert_eq!(
        (&version["freshness"], &version["resources"][0]["resource"]),
        (&json!("Stale"), &json!("flunders"))
    );
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_unavailable() {
    let mut cluster = Cluster::start().await;
    let extension = cluster.with_extension(Manner::Hangs).await;
    // The check waits for a response that does not come.
    while extension.seen_by_aggregator() == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    let message = cluster.reason("FailedDiscoveryCheck").await;
    assert!(message.ends_with("context deadline exceeded"), "{message}");
    assert_eq!(cluster.client.get(FLUNDERS).await.text(), "service unavailable\n");
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_server_with_a_wrong_certificate_is_unavailable_unless_verification_is_off() {
    let mut cluster = Cluster::start().await;
    let proxies = cluster.proxies().await;
    let extension = Extension::start(Manner::Usual, &proxies).await;
    let other = Extension::start(Manner::Usual, &proxies).await;
    cluster
        .create("/api/v1/namespaces/default/services", external_name())
        .await;
    let service = api_service(extension.port(), json!({"caBundle": other.bundle()}));
    cluster.create(API_SERVICES, service).await;
    let message = cluster.reason("FailedDiscoveryCheck").await;
    let why = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(message.ends_with(why), "{message}");
    assert!(extension.take_seen().is_empty());

    let change = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}}).to_string();
    let merge = [("content-type", "application/merge-patch+json")];
    let path = format!("{API_SERVICES}/v1.{GROUP}");
    assert_eq!(
        cluster
            .client
            .send(Method::PATCH, &path, &merge, &change)
            .await
            .status,
        200
    );
    cluster.reason("Passed").await;
    assert_eq!(cluster.client.get(FLUNDERS).await.status, 200);

    // Without the service, it is a local group without resources.
    let change = json!({"spec": {"service": null, "insecureSkipTLSVerify": null}}).to_string();
    assert_eq!(
        cluster
            .client
            .send(Method::PATCH, &path, &merge, &change)
            .await
            .status,
        200
    );
    cluster.reason("Local").await;
    assert_eq!(cluster.client.get(FLUNDERS).await.status, 404);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_fails_the_check_is_unavailable() {
    let mut cluster = Cluster::start().await;
    let extension = cluster.with_extension(Manner::Refuses(500)).await;
    let message = cluster.reason("FailedDiscoveryCheck").await;
    let url = format!("https://localhost:{}{ROOT}", extension.port());
    assert_eq!(
        message,
        format!("failing or missing response from {url}: bad status from {url}: 500")
    );
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_service_without_endpoints_has_its_own_reason() {
    let mut cluster = Cluster::start().await;
    cluster
        .create(
            API_SERVICES,
            api_service(443, json!({"insecureSkipTLSVerify": true})),
        )
        .await;
    assert_eq!(
        cluster.reason("ServiceNotFound").await,
        r#"service/wardle in "default" is not present"#
    );
    assert_eq!(cluster.client.get(FLUNDERS).await.text(), "service unavailable\n");

    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wardle"},
        "spec": {"ports": [{"name": "https", "port": 8443}]}});
    cluster
        .create("/api/v1/namespaces/default/services", service)
        .await;
    let message = cluster.reason("ServicePortError").await;
    assert_eq!(
        message,
        r#"service/wardle in "default" is not listening on port 443"#
    );

    let merge = [("content-type", "application/merge-patch+json")];
    let change = json!({"spec": {"ports": [{"name": "https", "port": 443}]}}).to_string();
    let path = "/api/v1/namespaces/default/services/wardle";
    assert_eq!(
        cluster
            .client
            .send(Method::PATCH, path, &merge, &change)
            .await
            .status,
        200
    );
    let message = cluster.reason("EndpointsNotFound").await;
    assert_eq!(
        message,
        r#"cannot find endpointslices for service/wardle in "default""#
    );

    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "wardle", "labels": {"kubernetes.io/service-name": "wardle"}},
        "ports": [{"name": "https", "port": 8443}],
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": false}}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    cluster.create(slices, slice).await;
    let message = cluster.reason("MissingEndpoints").await;
    let expected =
        r#"endpointslices for service/wardle in "default" have no addresses with port name "https""#;
    assert_eq!(message, expected);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn local_groups_are_registered_and_those_of_custom_kinds_follow_their_kinds() {
    let mut cluster = Cluster::start().await;
    let mut watching = connected(&cluster.server).await;
    let mut lines = Lines::open(&mut watching, &format!("{API_SERVICES}?watch=true")).await;
    let mut wanted = vec!["ADDED v1.", "ADDED v1.apps", "ADDED v2.autoscaling"];
    while !wanted.is_empty() {
        let event = lines.event().await;
        wanted.retain(|it| *it != event);
    }
    let apps = cluster
        .client
        .get(&format!("{API_SERVICES}/v1.apps"))
        .await
        .json();
    assert_eq!(
        apps["metadata"]["labels"],
        json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"})
    );
    assert_eq!(
        apps["spec"],
        json!({"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15})
    );
    assert_eq!(apps["status"]["conditions"][0]["reason"], "Local");

    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "sites", "kind": "Site"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.create(definitions, definition).await;
    let mut expect = async |expected: &str| while lines.event().await != expected {};
    expect("ADDED v1.example.com").await;
    let path = format!("{API_SERVICES}/v1.example.com");
    let labels = &cluster.client.get(&path).await.json()["metadata"]["labels"];
    assert_eq!(labels["kube-aggregator.kubernetes.io/automanaged"], "true");
    // A deleted one is created again.
    assert_eq!(
        cluster.client.send(Method::DELETE, &path, &[], "").await.status,
        200
    );
    expect("DELETED v1.example.com").await;
    expect("ADDED v1.example.com").await;
    let path = format!("{definitions}/sites.example.com");
    assert_eq!(
        cluster.client.send(Method::DELETE, &path, &[], "").await.status,
        200
    );
    expect("DELETED v1.example.com").await;
    cluster.server.shutdown().await;
}
