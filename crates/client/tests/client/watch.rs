//! Watch streams over a scripted server.

use std::time::Duration;

use crate::support::{Server, answer, unlimited};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use watchkeeper_client::config::{Config, Credentials};
use watchkeeper_client::{Client, DynamicApi, Error, InProcess, WatchEvent, WatchStream};
use watchkeeper_meta::{Resource, ResourceVersion, WatchOptions};
use watchkeeper_wire::protobuf::{Envelope, encode_body, frame};
use watchkeeper_wire::schema::Schema;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn config_maps(server: &Server) -> DynamicApi {
    server.client(unlimited()).dynamic(config_map_resource())
}

fn config_map_resource() -> Resource {
    Resource::namespaced("", "v1", "ConfigMap", "configmaps")
}

fn config_map(name: &str, version: u64) -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version.to_string()},
    })
}

fn expired() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version: 1 (9)", "reason": "Expired", "code": 410,
    })
}

/// One event in the encoding of the stream.
fn event(content_type: &str, word: &str, object: &Value) -> Bytes {
    if content_type == JSON {
        return format!("{}\n", json!({"type": word, "object": object})).into();
    }
    let body = encode_body(Schema::builtin(), object).unwrap();
    let mut out = Vec::new();
    frame::write(
        &frame::WatchFrame {
            word,
            object: Envelope::read(&body).unwrap(),
        },
        &mut out,
    );
    out.into()
}

/// `ADDED ns/a 1` for each item.
fn show(item: &Result<WatchEvent, Error>) -> String {
    let line = |word: &str, object: &watchkeeper_wire::Object| {
        format!("{word} {} {}", object.key(), object.resource_version())
    };
    match item {
        Ok(WatchEvent::Added(object)) => line("ADDED", object),
        Ok(WatchEvent::Modified(object)) => line("MODIFIED", object),
        Ok(WatchEvent::Deleted(object)) => line("DELETED", object),
        Ok(WatchEvent::Bookmark(object)) => format!("BOOKMARK {}", object.resource_version()),
        Ok(WatchEvent::Error(status)) => format!("ERROR {}", status.message),
        Ok(WatchEvent::Undecodable(bad)) => format!("UNDECODABLE {} {}", bad.position, bad.error),
        Err(error) if error.is_connection_lost() => "lost".to_owned(),
        Err(error) => format!("failed: {error}"),
    }
}

async fn read(stream: WatchStream) -> Vec<String> {
    stream.map(|item| show(&item)).collect().await
}

/// The end of the script after the body's bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The server ends the body regularly.
    Closed,
    /// The stream breaks after that many events have been read: a reset overtakes data in transit.
    BrokenAfter(usize),
}

/// Opens a watch whose body is those bytes, and returns its events.
async fn watch(content_type: &str, body: Bytes, end: End) -> Vec<String> {
    let (stream, sender) = crate::support::streamed(content_type);
    let server = Server::new([stream]);
    let mut watch = config_maps(&server).watch().await.unwrap();
    sender.send(Ok(body)).unwrap();
    let mut seen = Vec::new();
    if let End::BrokenAfter(events) = end {
        while seen.len() < events {
            seen.push(show(&watch.next().await.unwrap()));
        }
        sender.send(Err(crate::support::Broken)).unwrap();
    }
    drop(sender);
    seen.extend(read(watch).await);
    seen
}

#[tokio::test]
async fn events_of_both_encodings_are_read() {
    for content_type in [JSON, PROTOBUF] {
        let body = [
            event(content_type, "ADDED", &config_map("a", 1)),
            event(content_type, "MODIFIED", &config_map("a", 2)),
            event(content_type, "DELETED", &config_map("a", 3)),
            event(
                content_type,
                "BOOKMARK",
                &json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}),
            ),
        ];
        let expected = ["ADDED ns/a 1", "MODIFIED ns/a 2", "DELETED ns/a 3", "BOOKMARK 9"];
        assert_eq!(
            watch(content_type, body.concat().into(), End::Closed).await,
            expected,
            "{content_type}"
        );
    }
}

#[tokio::test]
async fn an_event_is_delivered_when_its_last_byte_has_arrived() {
    for content_type in [JSON, PROTOBUF] {
        let (stream, sender) = crate::support::streamed(content_type);
        let server = Server::new([stream]);
        let mut watch = config_maps(&server).watch().await.unwrap();
        for version in 1..4 {
            let event = event(content_type, "ADDED", &config_map("a", version));
            for byte in event {
                sender.send(Ok(Bytes::copy_from_slice(&[byte]))).unwrap();
            }
            // No other event follows: one held back would wait here forever.
            assert_eq!(
                show(&watch.next().await.unwrap()),
                format!("ADDED ns/a {version}")
            );
        }
    }
}

/// Kubernetes 1.37 compresses each event of a stream separately.
#[tokio::test]
async fn an_event_compressed_separately_is_delivered_at_once() {
    use std::io::Write;
    for content_type in [JSON, PROTOBUF] {
        let (stream, sender) = crate::support::streamed(content_type);
        let crate::support::Answer::Streamed(mut headers, receiver) = stream else {
            unreachable!("a streamed answer is one");
        };
        headers.push(("content-encoding", "gzip".to_owned()));
        let server = Server::new([crate::support::Answer::Streamed(headers, receiver)]);
        let mut watch = config_maps(&server).watch().await.unwrap();
        for version in 1..4 {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let event = event(content_type, "ADDED", &config_map("a", version));
            packed.write_all(&event).unwrap();
            sender.send(Ok(packed.finish().unwrap().into())).unwrap();
            assert_eq!(
                show(&watch.next().await.unwrap()),
                format!("ADDED ns/a {version}")
            );
        }
        drop(sender);
        assert!(watch.next().await.is_none(), "{content_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotated_token_is_used_and_a_live_watch_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "old").unwrap();
    let (stream, sender) = crate::support::streamed(JSON);
    let server = Server::new([
        stream,
        crate::support::json(200, config_map("a", 1)),
        crate::support::json(200, config_map("a", 1)),
    ]);
    let mut config = Config::new("https://kube".parse().unwrap());
    config.credentials = Credentials::TokenFile {
        path: path.clone(),
        fallback: None,
    };
    let client = Client::in_process_as(server.connector(), &config, unlimited()).unwrap();
    let api = client.dynamic(config_map_resource()).namespace("ns");
    let mut watch = api.watch().await.unwrap();
    for token in ["old", "new"] {
        std::fs::write(&path, token).unwrap();
        tokio::time::advance(Duration::from_secs(61)).await;
        api.get("a").await.unwrap();
        let seen = server.seen();
        let authorization = &seen.last().unwrap().headers["authorization"];
        assert_eq!(authorization, &format!("Bearer {token}"));
    }
    sender
        .send(Ok(event(JSON, "ADDED", &config_map("b", 2))))
        .unwrap();
    assert_eq!(show(&watch.next().await.unwrap()), "ADDED ns/b 2");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn the_request_carries_the_watch_options() {
    let (stream, _sender) = crate::support::streamed(JSON);
    let server = Server::new([stream]);
    let options = WatchOptions {
        resource_version: ResourceVersion::new("7"),
        allow_bookmarks: true,
        timeout_seconds: Some(300),
        ..Default::default()
    };
    config_maps(&server)
        .namespace("ns")
        .watch()
        .with(&options)
        .await
        .unwrap();
    assert_eq!(
        server.lines(),
        [
            "GET /api/v1/namespaces/ns/configmaps?allowWatchBookmarks=true&resourceVersion=7&timeout=5m0s&timeoutSeconds=300&watch=true"
        ]
    );
}

#[tokio::test]
async fn a_regular_end_an_error_event_and_a_broken_connection_are_distinguished() {
    for content_type in [JSON, PROTOBUF] {
        let added = event(content_type, "ADDED", &config_map("a", 1));
        let error = event(content_type, "ERROR", &expired());
        assert_eq!(
            watch(content_type, added.clone(), End::Closed).await,
            ["ADDED ns/a 1"]
        );
        assert_eq!(
            watch(content_type, added.clone(), End::BrokenAfter(1)).await,
            ["ADDED ns/a 1", "lost"]
        );
        assert_eq!(
            watch(content_type, [error, added].concat().into(), End::Closed).await,
            ["ERROR too old resource version: 1 (9)"],
            "nothing comes after an error"
        );
    }
    let server = Server::new([crate::support::json(410, expired())]);
    let refused = config_maps(&server).watch().await.unwrap_err();
    assert!(refused.is_expired());
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_an_item_of_its_own() {
    let body = [
        event(JSON, "ADDED", &config_map("a", 1)),
        Bytes::from_static(b"{\"type\":\"RENAMED\",\"object\":{}}\n"),
        Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":7}}}\n"),
        event(JSON, "ADDED", &config_map("b", 2)),
    ];
    let seen = watch(JSON, body.concat().into(), End::Closed).await;
    assert_eq!(
        (seen[0].as_str(), seen[3].as_str(), seen.len()),
        ("ADDED ns/a 1", "ADDED ns/b 2", 4)
    );
    assert_eq!(seen[1], "UNDECODABLE 1 unknown watch event type \"RENAMED\"");
    assert!(seen[2].starts_with("UNDECODABLE 2 "), "{seen:?}");
}

#[tokio::test]
async fn a_truncated_watch_delivers_exactly_its_complete_events() {
    for content_type in [JSON, PROTOBUF] {
        let events = [1, 2, 3].map(|version| event(content_type, "ADDED", &config_map("a", version)));
        let body = Bytes::from(events.concat());
        let ends: Vec<usize> = events
            .iter()
            .scan(0, |end, event| {
                *end += event.len();
                Some(*end)
            })
            .collect();
        for cut in 0..=body.len() {
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            let events = |count: usize| (1..=count).map(|version| format!("ADDED ns/a {version}"));

            let seen = watch(content_type, body.slice(..cut), End::BrokenAfter(whole)).await;
            let expected: Vec<_> = events(whole).chain(["lost".to_owned()]).collect();
            assert_eq!(seen, expected, "{content_type} broken at {cut}");

            // A complete line without its line feed is an event, too.
            let unended = content_type == JSON && ends.contains(&(cut + 1));
            let on_boundary = cut == 0 || ends.contains(&cut) || unended;
            let seen = watch(content_type, body.slice(..cut), End::Closed).await;
            let expected: Vec<_> = events(whole + usize::from(unended)).collect();
            assert_eq!(seen[..expected.len()], expected, "{content_type} ended at {cut}");
            assert_eq!(
                seen.len() == expected.len(),
                on_boundary,
                "{content_type} ended at {cut}: {seen:?}"
            );
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_request() {
    let (stream, sender) = crate::support::streamed(JSON);
    let server = Server::new([stream, answer(200, &[], "")]);
    let watch = config_maps(&server).watch().await.unwrap();
    drop(watch);
    // The server's side of the body is dropped when the reset arrives.
    sender.closed().await;
}

/// A WebSocket server: accepts, sends the messages, and closes regularly or breaks off.
fn websocket_client(messages: Vec<String>, in_order: bool) -> DynamicApi {
    use futures_util::SinkExt;
    use tokio_tungstenite::tungstenite::Message;
    let connector = InProcess::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let messages = messages.clone();
        tokio::spawn(async move {
            let mut socket = tokio_tungstenite::accept_async(theirs).await.unwrap();
            socket
                .send(Message::Ping(Bytes::from_static(b"?")))
                .await
                .unwrap();
            for message in messages {
                socket.send(Message::text(message)).await.unwrap();
            }
            if in_order {
                socket.close(None).await.unwrap();
                // Until the client has closed, too.
                while let Some(Ok(_)) = socket.next().await {}
            }
        });
        std::future::ready(Ok(ours))
    });
    Client::in_process(connector, unlimited()).dynamic(config_map_resource())
}

#[tokio::test]
async fn a_watch_works_over_a_websocket() {
    let line = |version| {
        let text = event(JSON, "ADDED", &config_map("a", version));
        String::from_utf8(text.to_vec()).unwrap()
    };
    let messages = vec![
        line(1),
        "{\"type\":\"RENAMED\",\"object\":{}}".to_owned(),
        line(2),
    ];
    let expected = [
        "ADDED ns/a 1",
        "UNDECODABLE 1 unknown watch event type \"RENAMED\"",
        "ADDED ns/a 2",
    ];
    let api = websocket_client(messages.clone(), true);
    let watch = api.watch_websocket().await.unwrap();
    assert_eq!(read(watch).await, expected);

    let api = websocket_client(messages, false);
    let watch = api.watch_websocket().await.unwrap();
    assert_eq!(read(watch).await, [&expected[..], &["lost"]].concat());
}

#[tokio::test]
async fn a_server_without_websockets_is_named() {
    let server = Server::new([
        crate::support::json(410, expired()),
        answer(200, &[], "no upgrade"),
    ]);
    let api = config_maps(&server);
    assert!(api.watch_websocket().await.unwrap_err().is_expired());
    let error = api.watch_websocket().await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the server does not upgrade the connection: it answered 200 OK"),
        "{error}"
    );
    assert_eq!(server.seen()[0].version, http::Version::HTTP_11);
}
