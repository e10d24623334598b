//! The initial objects of a cluster.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_server::{Handle, Server};

use crate::client::Client;

const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn client_of(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

async fn names(client: &mut Client, path: &str) -> Vec<String> {
    let list = client.get(path).await.json();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_server_announces_its_address_and_client_authorities() {
    let server = Server::builder().listen(LOCAL).start().await.unwrap();
    let port = server.address().unwrap().port();
    let mut client = client_of(&server).await;
    let endpoints = client
        .get("/api/v1/namespaces/default/endpoints/kubernetes")
        .await
        .json();
    assert_eq!(
        endpoints["subsets"],
        json!([{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}])
    );
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let slice = client.get(slice).await.json();
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["127.0.0.1"]));
    assert_eq!(slice["ports"][0]["port"], json!(port));
    let maps = "/api/v1/namespaces/kube-system/configmaps";
    let trust = client
        .get(&format!("{maps}/extension-apiserver-authentication"))
        .await
        .json();
    let pem = trust["data"]["client-ca-file"].as_str().unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
    let tracking = format!("{maps}/kube-apiserver-legacy-service-account-token-tracking");
    let tracking = client.get(&tracking).await.json();
    assert_eq!(
        tracking["data"]["since"].as_str().unwrap().len(),
        "2026-01-01".len()
    );
    server.shutdown().await;
}

#[tokio::test]
async fn every_cluster_ip_has_an_ip_address_object_while_its_service_exists() {
    let server = Server::builder().start().await.unwrap();
    let mut client = client_of(&server).await;
    let range = client
        .get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        .await
        .json();
    assert_eq!(range["spec"]["cidrs"], json!(["10.0.0.0/16"]));
    let ready = &range["status"]["conditions"][0];
    assert_eq!(
        (&ready["type"], &ready["status"]),
        (&json!("Ready"), &json!("True"))
    );
    assert_eq!(names(&mut client, ADDRESSES).await, ["10.0.0.1"]);

    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"clusterIP": "10.0.3.4", "ports": [{"port": 80}]}});
    let created = client
        .send(Method::POST, SERVICES, &[], &service.to_string())
        .await;
    assert_eq!(created.status, 201, "{}", created.text());
    let address = client.get(&format!("{ADDRESSES}/10.0.3.4")).await.json();
    assert_eq!(
        address["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "s"})
    );
    // A dry run allocates nothing.
    let mut other = service.clone();
    other["metadata"]["name"] = json!("t");
    other["spec"] = json!({"ports": [{"port": 80}]});
    let path = format!("{SERVICES}?dryRun=All");
    client.send(Method::POST, &path, &[], &other.to_string()).await;
    assert_eq!(names(&mut client, ADDRESSES).await, ["10.0.0.1", "10.0.3.4"]);
    client
        .send(Method::DELETE, &format!("{SERVICES}/s"), &[], "")
        .await;
    assert_eq!(names(&mut client, ADDRESSES).await, ["10.0.0.1"]);
    server.shutdown().await;
}

/// A server that moved announces its new address.
#[tokio::test]
async fn a_restarted_server_announces_its_new_address() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let server = Server::builder().data_dir(folder.path());
        let server = server.listen(LOCAL).start().await.unwrap();
        let port: Value = server.address().unwrap().port().into();
        let mut client = client_of(&server).await;
        let endpoints = client
            .get("/api/v1/namespaces/default/endpoints/kubernetes")
            .await
            .json();
        assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], port);
        assert_eq!(names(&mut client, ADDRESSES).await, ["10.0.0.1"]);
        server.shutdown().await;
    }
}
