//! The testing API over HTTP: `/testing/v1/…`.

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error, SendOptions};
use watchkeeper_server::{Handle, Server, Token, Tokens, User};
use watchkeeper_testing::{client_of, unlimited};

use crate::support::resource;

/// The largest answer that is read.
const LIMIT: usize = 1 << 20;

pub(crate) async fn started() -> (Handle, Client) {
    let server = Server::builder().testing(true).start().await.unwrap();
    let client = client_of(&server, unlimited()).unwrap();
    (server, client)
}

pub(crate) async fn ask(client: &Client, method: Method, path: &str, body: Value) -> Result<Value, Error> {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(method)
        .uri(format!("/testing/v1/{path}"));
    let request = request.body(Bytes::from(body)).unwrap();
    let answer = client.send(request, &SendOptions::default()).await?;
    let bytes = answer.into_body().collect(LIMIT).await.unwrap();
    Ok(serde_json::from_slice(&bytes).unwrap())
}

pub(crate) async fn get(client: &Client, path: &str) -> Value {
    ask(client, Method::GET, path, Value::Null).await.unwrap()
}

pub(crate) async fn post(client: &Client, path: &str, body: Value) -> Value {
    ask(client, Method::POST, path, body).await.unwrap()
}

async fn delete(client: &Client, path: &str) -> Value {
    ask(client, Method::DELETE, path, Value::Null).await.unwrap()
}

fn maps(client: &Client) -> watchkeeper_client::DynamicApi {
    client.dynamic(resource("", "configmaps")).namespace("default")
}

pub(crate) async fn create(client: &Client, name: &str) -> Result<(), Error> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    maps(client).create(&map).await.map(drop)
}

async fn count(client: &Client) -> usize {
    let list = maps(client).list().await.unwrap();
    list.items.len()
}

#[tokio::test]
async fn a_fault_is_planned_fires_and_is_recorded() {
    let (server, client) = started().await;
    let rule = json!({
        "request": {"verb": "create", "resource": "configmaps"},
        "nth": 2,
        "times": 1,
        "action": {"fail": {"status": "Failure", "code": 409, "reason": "Conflict", "message": "on purpose"}},
    });
    let planned = post(&client, "faults", rule).await;
    assert_eq!(planned, json!({"id": 1}));
    assert_eq!(get(&client, "faults").await[0]["rule"]["nth"], 2);
    create(&client, "a").await.unwrap();
    assert!(create(&client, "b").await.unwrap_err().is_conflict());
    let fired = get(&client, "fired").await;
    assert_eq!(
        (&fired[0]["rule"], &fired[0]["user"]),
        (&json!(1), &json!("admin"))
    );
    delete(&client, "fired").await;
    assert_eq!(get(&client, "fired").await, json!([]));

    let forbidden = post(&client, "faults", json!({"action": "forbid"})).await;
    assert!(create(&client, "c").await.unwrap_err().is_forbidden());
    // No rule affects the testing API itself.
    delete(&client, &format!("faults/{}", forbidden["id"])).await;
    create(&client, "c").await.unwrap();
    let unknown = ask(&client, Method::POST, "faults", json!({"action": "explode"})).await;
    assert!(unknown.unwrap_err().is_bad_request());
    server.shutdown().await;
}

#[tokio::test]
async fn the_clock_is_moved_and_frozen() {
    let (server, client) = started().await;
    let seconds = |clock: &Value| {
        let time: watchkeeper_meta::Time = clock["now"].as_str().unwrap().parse().unwrap();
        time.seconds
    };
    let frozen = post(&client, "clock", json!({"frozen": true})).await;
    assert_eq!(frozen["frozen"], true);
    let moved = post(&client, "clock", json!({"advance": "1h30m"})).await;
    assert_eq!(seconds(&moved) - seconds(&frozen), 5400);
    // The connection has survived, and idleness is detected although time is frozen.
    post(&client, "idle", json!({"quiet": "5ms"})).await;
    assert_eq!(seconds(&get(&client, "clock").await), seconds(&moved));
    create(&client, "a").await.unwrap();
    let map = maps(&client).get("a").await.unwrap();
    let created = map.to_value().unwrap()["metadata"]["creationTimestamp"].clone();
    assert_eq!(created, moved["now"]);
    let runs = post(&client, "clock", json!({"frozen": false})).await;
    assert_eq!(runs["frozen"], false);
    server.shutdown().await;
}

#[tokio::test]
async fn writes_are_recorded_and_snapshots_are_restored_and_reset() {
    let (server, client) = started().await;
    create(&client, "a").await.unwrap();
    let writes = get(&client, "writes").await;
    assert_eq!(
        (&writes[0]["verb"], &writes[0]["name"]),
        (&json!("create"), &json!("a"))
    );
    assert_eq!(writes[0]["outcome"]["created"]["kind"], "ConfigMap");
    delete(&client, "writes").await;

    let snapshot = post(&client, "snapshots", Value::Null).await;
    create(&client, "b").await.unwrap();
    let id = &snapshot["id"];
    let restored = post(&client, &format!("snapshots/{id}"), Value::Null).await;
    assert_eq!(restored, json!({"restored": 1}));
    assert_eq!(count(&client).await, 1);
    delete(&client, &format!("snapshots/{id}")).await;
    let gone = ask(&client, Method::POST, &format!("snapshots/{id}"), Value::Null).await;
    assert!(gone.unwrap_err().is_not_found());

    post(&client, "faults", json!({"nth": 100, "action": "forbid"})).await;
    post(&client, "reset", Value::Null).await;
    assert_eq!(count(&client).await, 0);
    assert_eq!(
        (get(&client, "faults").await, get(&client, "writes").await),
        (json!([]), json!([]))
    );
    server.shutdown().await;
}

#[tokio::test]
async fn the_testing_api_needs_an_administrator_and_a_server_that_enables_it() {
    let plain = Server::builder().start().await.unwrap();
    let client = client_of(&plain, unlimited()).unwrap();
    let refused = ask(&client, Method::GET, "clock", Value::Null).await;
    assert!(refused.unwrap_err().is_not_found());
    plain.shutdown().await;

    let mut tokens = Tokens::default();
    tokens.add(&Token::new("of-bob"), User::authenticated("bob", "", Vec::new()));
    let server = Server::builder()
        .testing(true)
        .tokens(tokens)
        .start()
        .await
        .unwrap();
    let bob = crate::time::client_with(&server, "of-bob");
    let refused = ask(&bob, Method::POST, "reset", Value::Null).await;
    assert!(refused.unwrap_err().is_forbidden());
    server.shutdown().await;
}
