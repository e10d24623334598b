//! HTTP/1.1 and HTTP/2, over an in-process pipe and over TLS.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};

use crate::client::Client;
use ::http::Method;
use serde_json::json;
#[cfg(feature = "testing")]
use tokio::net::TcpStream;
use watchkeeper_meta::Status;
use watchkeeper_server::{Handle, RequestMatch, Server, StartError, Verb};
use watchkeeper_wire::protobuf::Envelope;

async fn in_process() -> Handle {
    Server::builder().in_memory().start().await.unwrap()
}

#[tokio::test]
async fn both_protocols_are_served_without_a_port() {
    let server = in_process().await;
    let mut http1 = Client::http1(server.connector().connect().await.unwrap()).await;
    let mut http2 = Client::http2(server.connector().connect().await.unwrap()).await;
    for client in [&mut http1, &mut http2] {
        let answer = client.get("/version").await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("\"minor\": \"37\""), "{}", answer.text());
        assert_eq!(answer.header("cache-control"), "no-cache, private");
        assert!(!answer.header("audit-id").is_empty());
    }
    server.shutdown().await;
}

#[tokio::test]
async fn the_same_protocols_are_served_over_tls() {
    let server = Server::builder()
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .start()
        .await
        .unwrap();
    for protocol in [&b"http/1.1"[..], b"h2"] {
        let mut client = Client::tls(&server, protocol, None).await.with_token(&server);
        let answer = client.get("/api").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_client_certificate_names_its_user() {
    let server = Server::builder()
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .start()
        .await
        .unwrap();
    for (group, expected) in [(Some("system:masters"), 200), (Some("dev"), 403), (None, 403)] {
        let certificate = server.client_certificate("zoë", group).unwrap().unwrap();
        let mut client = Client::tls(&server, b"h2", Some(&certificate)).await;
        let answer = client.get("/metrics").await;
        assert_eq!(answer.status, expected, "{group:?}: {}", answer.text());
    }
    server.shutdown().await;
}

#[cfg(feature = "testing")]
#[tokio::test]
async fn connections_survive_moved_time() {
    let server = Server::builder()
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .testing(true)
        .start()
        .await
        .unwrap();
    let silent = TcpStream::connect(server.address().unwrap()).await.unwrap();
    let mut idle = Client::http1(server.connector().connect().await.unwrap()).await;
    assert_eq!(idle.get("/version").await.status, 200);
    let mut mover = Client::http2(server.connector().connect().await.unwrap())
        .await
        .with_token(&server);
    let moved = mover
        .send(Method::POST, "/testing/v1/clock", &[], r#"{"advance": "10m"}"#)
        .await;
    assert_eq!(moved.status, 200, "{}", moved.text());
    assert_eq!(idle.get("/version").await.status, 200);
    // The third has not even started its handshake.
    let authority = server.authority_pem().unwrap();
    let mut silent = Client::tls_over(silent, &authority, b"h2", None).await;
    assert_eq!(silent.get("/version").await.status, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn errors_are_statuses_in_the_requested_form() {
    let server = in_process().await;
    let mut client = Client::http1(server.connector().connect().await.unwrap()).await;
    let answer = client.get("/api/v1/pods").await;
    assert_eq!(answer.status, 403);
    let status: Status = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        status.message,
        r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope"#
    );
    let protobuf = [("accept", "application/vnd.kubernetes.protobuf")];
    let answer = client.send(Method::GET, "/api/v1/pods", &protobuf, "").await;
    assert_eq!(
        answer.header("content-type"),
        "application/vnd.kubernetes.protobuf"
    );
    assert!(answer.body.starts_with(b"k8s\0"));
    let wrong = [("authorization", "Bearer wrong")];
    assert_eq!(client.send(Method::GET, "/livez", &wrong, "").await.status, 401);
    server.shutdown().await;
}

#[tokio::test]
async fn foreign_hosts_are_rejected() {
    let server = in_process().await;
    let mut client = Client::http1(server.connector().connect().await.unwrap()).await;
    let foreign = [("host", "evil.example")];
    assert_eq!(client.send(Method::GET, "/livez", &foreign, "").await.status, 403);
    server.shutdown().await;
}

#[tokio::test]
async fn discovery_is_cached_by_its_tag() {
    let server = in_process().await;
    let mut client = Client::http2(server.connector().connect().await.unwrap())
        .await
        .with_token(&server);
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let first = client.send(Method::GET, "/apis", &[("accept", accept)], "").await;
    let tag = first.header("etag");
    let again = [("accept", accept), ("if-none-match", tag.as_str())];
    let second = client.send(Method::GET, "/apis", &again, "").await;
    assert_eq!((first.status, second.status), (200, 304));
    assert!(second.body.is_empty());
    server.shutdown().await;
}

#[tokio::test]
async fn an_injected_fault_answers_one_request() {
    let server = in_process().await;
    let mut client = Client::http2(server.connector().connect().await.unwrap())
        .await
        .with_token(&server);
    let list = RequestMatch::new(Verb::List, "configmaps");
    let busy = Status::too_many_requests("slow down", 7);
    server.faults().answer_next(list, 1, busy).unwrap();
    let answer = client.get("/api/v1/configmaps").await;
    assert_eq!((answer.status, answer.header("retry-after").as_str()), (429, "7"));
    assert_ne!(client.get("/api/v1/configmaps").await.status, 429);
    server.shutdown().await;
}

#[tokio::test]
async fn refused_connections_end_at_once() {
    let server = in_process().await;
    server.faults().refuse_connections(true);
    let pipe = server.connector().connect().await.unwrap();
    assert!(Client::try_get_http1(pipe, "/livez").await.is_err());
    server.faults().refuse_connections(false);
    let mut client = Client::http1(server.connector().connect().await.unwrap()).await;
    assert_eq!(client.get("/livez").await.status, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn bodies_over_the_limit_are_rejected_before_they_are_read() {
    let server = in_process().await;
    let mut client = Client::http1(server.connector().connect().await.unwrap())
        .await
        .with_token(&server);
    let body = "x".repeat(3 * 1024 * 1024 + 1);
    let answer = client
        .send(Method::POST, "/api/v1/namespaces/default/configmaps", &[], &body)
        .await;
    assert_eq!(answer.status, 413, "{}", answer.text());
    server.shutdown().await;
}

#[tokio::test]
async fn shutdown_refuses_new_connections_and_ends() {
    let server = in_process().await;
    let connector = server.connector();
    let mut idle = Client::http1(connector.connect().await.unwrap()).await;
    assert_eq!(idle.get("/livez").await.status, 200);
    server.shutdown().await;
    assert!(connector.connect().await.is_err());
}

#[tokio::test]
async fn many_servers_share_nothing() {
    let (one, other) = (in_process().await, in_process().await);
    let mut client = Client::http1(one.connector().connect().await.unwrap()).await;
    let foreign = format!("Bearer {}", other.admin_token().reveal());
    let answer = client
        .send(Method::GET, "/livez", &[("authorization", &foreign)], "")
        .await;
    assert_eq!(answer.status, 401);
    other.shutdown().await;
    assert_eq!(client.get("/livez").await.status, 200);
    one.shutdown().await;
}

#[tokio::test]
async fn a_public_address_needs_credentials() {
    let public = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let refused = Server::builder().listen(public).start().await.unwrap_err();
    assert!(matches!(refused, StartError::Exposed(_)), "{refused}");
}

async fn admin(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

#[tokio::test]
async fn discovery_is_answered_in_every_encoding() {
    let server = in_process().await;
    let mut client = admin(&server).await;
    for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"] {
        let protobuf = [("accept", "application/vnd.kubernetes.protobuf")];
        let answer = client.send(Method::GET, path, &protobuf, "").await;
        assert_eq!(answer.header("content-type"), protobuf[0].1, "{path}");
        assert!(answer.body.starts_with(b"k8s\0"), "{path}");
        let answer = client
            .send(Method::GET, path, &[("accept", "application/yaml")], "")
            .await;
        assert_eq!(answer.header("content-type"), "application/yaml", "{path}");
        assert!(answer.text().contains("kind: API"), "{path}: {}", answer.text());
    }
    server.shutdown().await;
}

#[tokio::test]
async fn the_keys_of_service_account_tokens_are_published() {
    let server = in_process().await;
    let mut client = admin(&server).await;
    let configuration = client.get("/.well-known/openid-configuration").await.json();
    assert_eq!(configuration["issuer"], "https://kubernetes.default.svc");
    let keys = client.get("/openid/v1/jwks").await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    let account = r#"{"metadata":{"name":"robot"}}"#;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    client.send(Method::POST, accounts, &[], account).await;
    let token = client
        .send(Method::POST, &format!("{accounts}/robot/token"), &[], "{}")
        .await
        .json();
    let token = token["status"]["token"].as_str().unwrap();
    // A holder of such a token may read the keys, and is authenticated by it.
    let mut robot = Client::http2(server.connector().connect().await.unwrap())
        .await
        .with_bearer(token);
    assert_eq!(robot.get("/openid/v1/jwks").await.json(), keys.json());
    assert_eq!(robot.get("/metrics").await.status, 403);
    // The token is invalid after its account is deleted, even if another of the same name is created.
    client
        .send(Method::DELETE, &format!("{accounts}/robot"), &[], "")
        .await;
    client.send(Method::POST, accounts, &[], account).await;
    assert_eq!(robot.get("/openid/v1/jwks").await.status, 401);
    server.shutdown().await;
}

#[tokio::test]
async fn component_statuses_are_healthy() {
    let server = in_process().await;
    let mut client = admin(&server).await;
    let list = client.get("/api/v1/componentstatuses").await;
    assert_eq!(
        list.header("warning"),
        "299 - \"v1 ComponentStatus is deprecated in v1.19+\""
    );
    assert_eq!(list.json()["items"][0]["metadata"]["name"], "etcd-0");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    for path in ["/api/v1/componentstatuses", "/api/v1/componentstatuses/etcd-0"] {
        let printed = client.send(Method::GET, path, &table, "").await.json();
        assert_eq!(
            printed["rows"][0]["cells"],
            json!(["etcd-0", "Healthy", "ok", ""]),
            "{printed}"
        );
    }
    let page = client.get("/metrics/slis").await.text();
    assert!(
        page.contains("kubernetes_healthcheck{name=\"etcd\",type=\"livez\"} 1\n"),
        "{page}"
    );
    for path in ["/statusz", "/flagz"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn an_export_is_rejected() {
    let server = in_process().await;
    let mut client = admin(&server).await;
    let answer = client.get("/api/v1/namespaces/default?export=true").await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("no longer supported"), "{}", answer.text());
    assert_eq!(
        client.get("/api/v1/namespaces/default?export=false").await.status,
        200
    );
    server.shutdown().await;
}

/// A client that is still sending its body sees the error, not a broken stream.
#[tokio::test]
async fn a_client_that_is_still_sending_sees_the_error() {
    let server = in_process().await;
    let mut client = admin(&server).await;
    let body = "x".repeat(200 * 1024);
    for _ in 0..20 {
        let answer = client.send(Method::POST, "/api/v1/configmaps", &[], &body).await;
        assert_eq!(answer.status, 405);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_long_list_arrives_complete_in_every_form() {
    let server = in_process().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let mut http1 = Client::http1(server.connector().connect().await.unwrap())
        .await
        .with_token(&server);
    for number in 0..40 {
        let data = json!({"text": "0123456789".repeat(1_000)});
        let map = json!({"metadata": {"name": format!("map-{number}")}, "data": data});
        let made = http1.send(Method::POST, path, &[], &map.to_string()).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let mut http2 = Client::http2(server.connector().connect().await.unwrap())
        .await
        .with_token(&server);
    for client in [&mut http1, &mut http2] {
        let whole = client.get(path).await;
        let items = whole.json()["items"].as_array().unwrap().clone();
        assert_eq!(items.len(), 40);
        assert_eq!(items[7]["data"]["text"].as_str().unwrap().len(), 10_000);
        let packed = client
            .send(Method::GET, path, &[("accept-encoding", "gzip")], "")
            .await;
        assert_eq!(packed.header("content-encoding"), "gzip");
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&packed.body[..])
            .read_to_end(&mut text)
            .unwrap();
        assert!(text == whole.body);
        let protobuf = [("accept", "application/vnd.kubernetes.protobuf")];
        let protobuf = client.send(Method::GET, path, &protobuf, "").await;
        let envelope = Envelope::read(&protobuf.body).unwrap();
        assert_eq!(envelope.kind, "ConfigMapList");
        let mut again = Vec::new();
        envelope.write(&mut again);
        assert!(again == protobuf.body);
    }
    server.shutdown().await;
}
