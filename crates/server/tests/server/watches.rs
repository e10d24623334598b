//! Watch streams over HTTP: their start, their end, and faults.

use std::io::Read as _;
use std::time::Duration;

use ::http::Method;
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use watchkeeper_server::{Flow, Handle, RequestMatch, Server, Verb};

use crate::client::Client;
use crate::lines::{End, Lines};

/// Far longer than a disconnect takes.
const PATIENCE: Duration = Duration::from_secs(20);

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1";

async fn connected(server: &Handle) -> Client {
    let pipe = server.connector().connect().await.unwrap();
    Client::http2(pipe).await.with_token(server)
}

async fn create(client: &mut Client, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let answer = client
        .send(Method::POST, CONFIG_MAPS, &[], &body.to_string())
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

fn config_maps() -> RequestMatch {
    RequestMatch::new(Verb::Watch, "configmaps")
}

#[tokio::test]
async fn the_head_is_sent_before_the_first_event() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let mut lines = Lines::open(&mut client, WATCH).await;
    create(&mut client, "a").await;
    assert_eq!(lines.event().await, "ADDED a");
    server.shutdown().await;
}

#[tokio::test]
async fn shutting_down_ends_streams_cleanly() {
    let server = Server::builder().start().await.unwrap();
    let mut http2 = connected(&server).await;
    let pipe = server.connector().connect().await.unwrap();
    let mut http1 = Client::http1(pipe).await.with_token(&server);
    let mut streams = [
        Lines::open(&mut http1, WATCH).await,
        Lines::open(&mut http2, WATCH).await,
    ];
    server.shutdown().await;
    for lines in &mut streams {
        assert_eq!(lines.next().await, Err(End::Complete));
    }
}

#[tokio::test]
async fn a_cut_stream_is_an_error_for_the_client() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let mut lines = Lines::open(&mut client, WATCH).await;
    assert_eq!(server.faults().set_flow(&config_maps(), Flow::Cut), 1);
    assert_eq!(lines.next().await, Err(End::BrokenOff));
    // The connection and its other streams continue.
    create(&mut client, "a").await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_stalled_stream_delivers_everything_in_the_end() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let mut lines = Lines::open(&mut client, WATCH).await;
    server.faults().set_flow(&config_maps(), Flow::Stalled);
    for name in ["a", "b"] {
        create(&mut client, name).await;
    }
    server.faults().set_flow(&config_maps(), Flow::Running);
    assert_eq!(lines.event().await, "ADDED a");
    assert_eq!(lines.event().await, "ADDED b");
    server.shutdown().await;
}

#[tokio::test]
async fn a_disconnected_client_leaves_no_stream() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let lines = Lines::open(&mut client, WATCH).await;
    assert_eq!(server.faults().open_streams(&config_maps()), 1);
    drop(lines);
    drop(client);
    while server.faults().open_streams(&config_maps()) > 0 {
        tokio::task::yield_now().await;
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_at_its_timeout() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let before = tokio::time::Instant::now();
    let mut lines = Lines::open(&mut client, &format!("{WATCH}&timeoutSeconds=300")).await;
    assert_eq!(lines.next().await, Err(End::Complete));
    assert_eq!(before.elapsed().as_secs(), 300);
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_over_its_deadline_gets_504() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    // A version that is never reached is awaited, but not beyond the request's deadline.
    let path = format!("{CONFIG_MAPS}?resourceVersion=999999&timeout=1s");
    let answer = client.get(&path).await;
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert!(
        answer
            .text()
            .contains("did not complete within requested timeout"),
        "{}",
        answer.text()
    );
    server.shutdown().await;
}

/// Requests a WebSocket. The response to this key is in RFC 6455.
const UPGRADE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[tokio::test]
async fn events_are_sent_over_a_web_socket() {
    let server = Server::builder().start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let mut client = Client::http1(pipe).await.with_token(&server);
    let answer = client.open(Method::GET, WATCH, &UPGRADE, "").await;
    assert_eq!(answer.status(), 101);
    assert_eq!(
        answer.headers()["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    let upgraded = hyper::upgrade::on(answer).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Client, None).await;

    create(&mut connected(&server).await, "a").await;
    let message = socket.next().await.unwrap().unwrap();
    let event: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("a"))
    );
    server.shutdown().await;
    assert!(socket.next().await.unwrap().unwrap().is_close());
}

/// The whole body of a watch that ends after a second, for a client that accepts gzip, and its encoding.
async fn packed(client: &mut Client, query: &str) -> (Vec<u8>, String) {
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&{query}");
    let answer = client
        .send(Method::GET, &path, &[("accept-encoding", "gzip")], "")
        .await;
    let encoding = answer.header("content-encoding");
    (answer.body.to_vec(), encoding)
}

/// The names in the events of a body.
fn named(body: &[u8]) -> Vec<String> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    let names = events.map(|event| event["object"]["metadata"]["name"].as_str().map(str::to_owned));
    names.flatten().collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_with_the_objects_is_compressed_on_request() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let text = "0123456789".repeat(1_000);
    for name in ["a", "b"] {
        let map = json!({"metadata": {"name": name}, "data": {"text": text}}).to_string();
        client.send(Method::POST, CONFIG_MAPS, &[], &map).await;
    }
    create(&mut client, "small").await;
    for query in [
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "resourceVersion=0",
        "",
    ] {
        let (body, encoding) = packed(&mut client, query).await;
        assert_eq!(encoding, "gzip", "{query}");
        assert!(body.len() < text.len(), "{}", body.len());
        let mut plain = Vec::new();
        let read = flate2::read::MultiGzDecoder::new(&body[..]).read_to_end(&mut plain);
        read.unwrap();
        assert_eq!(named(&plain), ["a", "b", "small"], "{query}");
    }
    let (body, encoding) = packed(&mut client, "resourceVersion=1").await;
    assert_eq!((encoding.as_str(), named(&body).len()), ("", 3));
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_event_of_a_compressed_watch_can_be_decoded_when_it_comes() {
    let server = Server::builder().start().await.unwrap();
    let mut client = connected(&server).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=0");
    let answer = client
        .open(Method::GET, &path, &[("accept-encoding", "gzip")], "")
        .await;
    let mut body = answer.into_body();
    // Go's decoder hands over an event at the mark of a flush, which is before the empty last block.
    let (stored, packed) = ([0, 0, 0xff, 0xff, 1, 0, 0, 0xff, 0xff], [0, 0, 0xff, 0xff, 3, 0]);
    for (name, text, end) in [
        ("a", String::new(), &stored[..]),
        ("b", "0123456789".repeat(1_000), &packed[..]),
    ] {
        let map = json!({"metadata": {"name": name}, "data": {"text": text}}).to_string();
        client.send(Method::POST, CONFIG_MAPS, &[], &map).await;
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let mut event = String::new();
        let read = flate2::read::GzDecoder::new(&piece[..]).read_to_string(&mut event);
        read.unwrap();
        assert_eq!(named(event.as_bytes()), [name]);
        let (blocks, _checksum) = piece.split_at(piece.len() - 8);
        assert!(blocks.ends_with(end), "{blocks:?}");
    }
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn compression_of_watches_can_be_turned_off() {
    let gates = "WatchListCompression=false".parse().unwrap();
    let server = Server::builder().feature_gates(gates).start().await.unwrap();
    let mut client = connected(&server).await;
    create(&mut client, "a").await;
    let (body, encoding) = packed(&mut client, "resourceVersion=0").await;
    assert_eq!((encoding.as_str(), named(&body).len()), ("", 1));
    server.shutdown().await;
}

#[tokio::test]
async fn an_oversized_web_socket_frame_is_rejected_by_its_head() {
    let server = Server::builder().start().await.unwrap();
    let pipe = server.connector().connect().await.unwrap();
    let mut client = Client::http1(pipe).await.with_token(&server);
    let answer = client.open(Method::GET, WATCH, &UPGRADE, "").await;
    let mut io = hyper_util::rt::TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    // A masked binary frame of one MiB, without its content.
    let mut head = vec![0x82, 0xff];
    head.extend((1u64 << 20).to_be_bytes());
    head.extend([0; 4]);
    io.write_all(&head).await.unwrap();
    let mut rest = Vec::new();
    let hung_up = tokio::time::timeout(PATIENCE, io.read_to_end(&mut rest)).await;
    assert!(hung_up.is_ok(), "the server waits for the rest of the frame");
    server.shutdown().await;
}

#[tokio::test]
async fn a_slow_client_does_not_delay_the_others() {
    let server = Server::builder().start().await.unwrap();
    let mut slow = connected(&server).await;
    let _unread = Lines::open(&mut slow, WATCH).await;
    let mut client = connected(&server).await;
    let mut lines = Lines::open(&mut client, WATCH).await;
    for index in 0..50 {
        create(&mut client, &format!("c{index}")).await;
        assert_eq!(lines.event().await, format!("ADDED c{index}"));
    }
    server.shutdown().await;
}
