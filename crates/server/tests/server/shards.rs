//! Sharded lists and watches over HTTP: their forms, and invalid selectors.

use ::http::Method;
use serde_json::{Value, json};
use watchkeeper_meta::{ShardField, ShardSelector};
use watchkeeper_server::{FeatureGates, Handle, Server};
use watchkeeper_wire::{Encoding, ListSplitter};

use crate::client::Client;
use crate::lines::Lines;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn sharding() -> (Handle, Client) {
    let gates: FeatureGates = "ShardedListAndWatch=true".parse().unwrap();
    let server = Server::builder().feature_gates(gates).start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let client = Client::http2(pipe).await.with_token(&server);
    (server, client)
}

async fn create(client: &mut Client, name: &str) -> Value {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    post(client, CONFIG_MAPS, &body).await
}

fn halves() -> [String; 2] {
    [0, 1].map(|index| {
        ShardSelector::part(ShardField::Uid, index, 2)
            .unwrap()
            .to_string()
    })
}

fn query(selector: &str) -> String {
    format!(
        "shardSelector={}",
        selector.replace(' ', "%20").replace('|', "%7C")
    )
}

#[tokio::test]
async fn every_form_of_a_list_has_its_shard() {
    let (_server, mut client) = sharding().await;
    for number in 0..20 {
        create(&mut client, &format!("m{number}")).await;
    }
    for accept in ["application/json", TABLE, METADATA] {
        let mut count = 0;
        for half in halves() {
            let path = format!("{CONFIG_MAPS}?{}", query(&half));
            let list = client
                .send(Method::GET, &path, &[("accept", accept)], "")
                .await
                .json();
            assert_eq!(list["metadata"]["shardInfo"]["selector"], half, "{accept}");
            let items = list["items"].as_array().or(list["rows"].as_array());
            count += items.unwrap().len();
        }
        assert_eq!(count, 20, "{accept}");
        let whole = client
            .send(Method::GET, CONFIG_MAPS, &[("accept", accept)], "")
            .await
            .json();
        assert_eq!(whole["metadata"]["shardInfo"], Value::Null, "{accept}");
    }
    let [half, _] = halves();
    let path = format!("{CONFIG_MAPS}?{}", query(&half));
    let accept = ("accept", "application/vnd.kubernetes.protobuf");
    let answer = client.send(Method::GET, &path, &[accept], "").await;
    let mut splitter = ListSplitter::new(Encoding::Protobuf);
    let mut chunk = &answer.body[..];
    while splitter.next(&mut chunk).unwrap().is_some() {}
    assert_eq!(splitter.head().shard_selector.as_ref(), Some(&half));
}

#[tokio::test]
async fn a_watch_of_a_shard_delivers_only_its_objects() {
    let (_server, mut client) = sharding().await;
    let mut streams = Vec::new();
    for half in halves() {
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&{}", query(&half));
        streams.push((half, Lines::open(&mut client, &path).await));
    }
    let mut created = Vec::new();
    for number in 0..10 {
        created.push(create(&mut client, &format!("m{number}")).await);
    }
    for (half, mut lines) in streams {
        let half: ShardSelector = half.parse().unwrap();
        let own = created
            .iter()
            .filter(|map| half.has(map["metadata"]["uid"].as_str().unwrap()));
        for map in own {
            let event = lines.next().await.unwrap();
            assert_eq!(event["object"]["metadata"]["uid"], map["metadata"]["uid"]);
        }
    }
}

#[tokio::test]
async fn a_malformed_selector_is_a_bad_request_with_the_reason() {
    let (_server, mut client) = sharding().await;
    for path in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}?watch=1")] {
        let mark = if path.contains('?') { '&' } else { '?' };
        let selector = query("shardRange(object.metadata.name, '0x0', '0x8')");
        let answer = client.get(&format!("{path}{mark}{selector}")).await;
        assert_eq!(answer.status, 400);
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("unsupported field path"), "{message}");
    }
}

#[tokio::test]
async fn a_collection_is_deleted_shard_by_shard() {
    let (_server, mut client) = sharding().await;
    for number in 0..12 {
        create(&mut client, &format!("m{number}")).await;
    }
    let [first, second] = halves();
    let deleted = client
        .send(
            Method::DELETE,
            &format!("{CONFIG_MAPS}?{}", query(&first)),
            &[],
            "",
        )
        .await;
    assert_eq!(deleted.status, 200);
    let count = async |client: &mut Client, half: &str| {
        let list = client.get(&format!("{CONFIG_MAPS}?{}", query(half))).await.json();
        list["items"].as_array().unwrap().len()
    };
    assert_eq!(count(&mut client, &first).await, 0);
    let left = client.get(CONFIG_MAPS).await.json()["items"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(count(&mut client, &second).await, left);
}

/// Custom objects are stored and encoded like built-in ones; their lists say which shard they are.
#[tokio::test]
async fn lists_and_watches_of_custom_kinds_have_their_shard() {
    let (_server, mut client) = sharding().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let ships = "/apis/example.com/v1/namespaces/default/ships";
    post(&mut client, definitions, &definition).await;
    let mut created = Vec::new();
    for number in 0..20 {
        let ship = json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": format!("s{number}")}});
        created.push(post(&mut client, ships, &ship).await);
    }
    for half in halves() {
        let selector: ShardSelector = half.parse().unwrap();
        let uid = |ship: &Value| ship["metadata"]["uid"].as_str().unwrap().to_owned();
        let mut own: Vec<String> = created.iter().map(uid).filter(|uid| selector.has(uid)).collect();
        own.sort();
        for accept in ["application/json", TABLE, METADATA] {
            let path = format!("{ships}?{}", query(&half));
            let list = client
                .send(Method::GET, &path, &[("accept", accept)], "")
                .await
                .json();
            assert_eq!(list["metadata"]["shardInfo"]["selector"], half, "{accept}");
            let items = list["items"].as_array().or(list["rows"].as_array()).unwrap();
            let items = items.iter().map(|item| uid(item.get("object").unwrap_or(item)));
            let mut items: Vec<String> = items.collect();
            items.sort();
            assert_eq!(items, own, "{accept}");
        }
        let path = format!(
            "{ships}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&{}",
            query(&half)
        );
        let mut lines = Lines::open(&mut client, &path).await;
        let mut seen = Vec::new();
        for _ in &own {
            seen.push(uid(&lines.next().await.unwrap()["object"]));
        }
        seen.sort();
        assert_eq!(seen, own);
    }
}

async fn post(client: &mut Client, path: &str, object: &Value) -> Value {
    let answer = client.send(Method::POST, path, &[], &object.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}
