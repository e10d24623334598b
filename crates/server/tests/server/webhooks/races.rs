//! Concurrent changes during a webhook call: the reviewed write is the stored one, or it is reviewed again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::http::Method;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_server::Server;

use super::endpoint::{Endpoint, Reply};
use super::{Cluster, MAPS, MERGE, VALIDATING, configuration, connected, map, rule};
use crate::client::Client;

/// A cluster whose webhook is also a client of it, and runs this with every request.
async fn asking(
    operation: &str,
    act: impl Fn(Value, Client) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
) -> (Cluster, Endpoint) {
    let server = Server::builder().start().await.unwrap();
    let connector = server.connector();
    let token = server.admin_token().reveal().to_owned();
    let act = Arc::new(act);
    let endpoint = Endpoint::start_async(move |request| {
        let (connector, token, act) = (connector.clone(), token.clone(), act.clone());
        async move {
            let pipe = connector.connect().await.unwrap();
            act(request, Client::http2(pipe).await.with_bearer(&token)).await
        }
        .boxed()
    })
    .await;
    let client = connected(&server).await;
    let mut cluster = Cluster { server, client };
    let parts = json!({"rules": [rule(operation, "configmaps")]});
    cluster
        .create(VALIDATING, configuration("a", &endpoint, parts))
        .await;
    (cluster, endpoint)
}

#[tokio::test]
async fn a_deletion_review_has_the_deleted_state() {
    let (mut cluster, endpoint) = asking("DELETE", |request, mut client| {
        async move {
            if request["oldObject"]["data"]["colour"] == "red" {
                return Reply::Response(json!({"allowed": false}));
            }
            let red = json!({"data": {"colour": "red"}}).to_string();
            let path = format!("{MAPS}/one");
            let changed = client.send(Method::PATCH, &path, &[MERGE], &red).await;
            assert_eq!(changed.status, 200, "{}", changed.text());
            Reply::allow()
        }
        .boxed()
    })
    .await;
    cluster.create(MAPS, map("one")).await;
    let answer = cluster.delete(&format!("{MAPS}/one")).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(endpoint.take_seen().len(), 2);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn a_create_review_has_the_final_name() {
    let is_first = AtomicBool::new(true);
    let (mut cluster, endpoint) = asking("CREATE", move |request, mut client| {
        let takes_name = is_first.swap(false, Ordering::SeqCst);
        async move {
            if takes_name {
                let taken = map(request["name"].as_str().unwrap()).to_string();
                let created = client.send(Method::POST, MAPS, &[], &taken).await;
                assert_eq!(created.status, 201, "{}", created.text());
            }
            Reply::allow()
        }
        .boxed()
    })
    .await;
    let mut object = map("");
    object["metadata"] = json!({"generateName": "x-"});
    let created = cluster.create(MAPS, object).await;
    let seen = endpoint.take_seen();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[2]["object"]["metadata"]["name"], created["metadata"]["name"]);
    cluster.server.shutdown().await;
}

#[tokio::test]
async fn nothing_is_created_in_a_namespace_deleted_during_a_webhook_call() {
    let (mut cluster, _endpoint) = asking("CREATE", |_, mut client| {
        async move {
            let path = "/api/v1/namespaces/going";
            let deleted = client.send(Method::DELETE, path, &[], "").await;
            assert_eq!(deleted.status, 200, "{}", deleted.text());
            Reply::allow()
        }
        .boxed()
    })
    .await;
    let namespace = json!({"metadata": {"name": "going"}});
    cluster.create("/api/v1/namespaces", namespace).await;
    let answer = cluster
        .post("/api/v1/namespaces/going/configmaps", map("one"))
        .await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    cluster.server.shutdown().await;
}
