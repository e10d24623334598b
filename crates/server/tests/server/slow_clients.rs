//! Slow clients: the resources they hold, and for how long.

use std::time::Duration;

use ::http::{Method, Request};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;
use watchkeeper_server::Handle;
use watchkeeper_server::limits::{HEADER_TIMEOUT, IDLE_TIMEOUT, LATE_ANSWER_GRACE, MAX_REQUEST_TIMEOUT};

use crate::client::Client;
use crate::fairness::{MAPS, create, get_as, narrow, started};

/// The time after which an unread response is dropped.
const GIVEN_UP: Duration = MAX_REQUEST_TIMEOUT.saturating_add(LATE_ANSWER_GRACE);

/// More than a connection buffers.
const LARGE: usize = 500_000;

/// A server where Alice has one seat, and a large object to read.
async fn with_large_map() -> Handle {
    let server = started().await;
    let map = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(LARGE)}});
    create(&server, MAPS, &map).await;
    narrow(&server, 10).await;
    server
}

/// Sends a request as Alice over a connection with a tiny window, and reads nothing of the response.
async fn unread(server: &Handle, path: &str) -> (http2::SendRequest<Full<Bytes>>, Incoming) {
    let pipe = server.connector().connect().await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(1);
    let (mut sender, connection) = builder.handshake(TokioIo::new(pipe)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path)
        .header("host", "localhost")
        .header(
            "authorization",
            format!("Bearer {}", server.admin_token().reveal()),
        )
        .header("impersonate-user", "alice")
        .header("impersonate-group", "readers")
        .body(Full::default())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    (sender, answer.into_body())
}

async fn status_for_alice(server: &Handle) -> u16 {
    get_as(server, "alice", "/api/v1/namespaces/default").await.status
}

#[tokio::test(start_paused = true)]
async fn an_unread_response_keeps_its_seat_until_it_is_dropped() {
    let server = with_large_map().await;
    let began = Instant::now();
    let (sender, _body) = unread(&server, &format!("{MAPS}/large")).await;
    assert_eq!(status_for_alice(&server).await, 429, "her only seat is in use");
    tokio::time::sleep_until(began + GIVEN_UP - Duration::from_secs(1)).await;
    assert!(!sender.is_closed());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(sender.is_closed());
    assert_eq!(status_for_alice(&server).await, 200);
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_byte_by_byte_is_disconnected() {
    let server = with_large_map().await;
    let began = Instant::now();
    let mut slow = ask(&server, &format!("{MAPS}/large")).await;
    let mut taken = 0;
    loop {
        match slow.read(&mut [0; 512]).await {
            Ok(0) | Err(_) => break,
            Ok(count) => taken += count,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(taken < LARGE, "{taken} bytes");
    // Bytes in transit are still read.
    let waited = began.elapsed() - Duration::from_secs(64 * 1024 / 512);
    assert!(waited <= GIVEN_UP + Duration::from_secs(1), "{waited:?}");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_holds_its_seat_only_during_its_initial_events() {
    let server = with_large_map().await;
    let (_sender, _body) = unread(&server, &format!("{MAPS}?watch=1&resourceVersion=999999")).await;
    assert_eq!(status_for_alice(&server).await, 200, "it has no initial events");
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unread_watch_loses_its_seat_and_continues() {
    let server = with_large_map().await;
    for number in 0..4 {
        let map = json!({"metadata": {"name": format!("large-{number}")}, "data": {"k": "x".repeat(LARGE)}});
        create(&server, MAPS, &map).await;
    }
    let (sender, _body) = unread(&server, &format!("{MAPS}?watch=1")).await;
    assert_eq!(
        status_for_alice(&server).await,
        429,
        "the initial events are not sent yet"
    );
    tokio::time::sleep(GIVEN_UP).await;
    assert_eq!(status_for_alice(&server).await, 200);
    assert!(!sender.is_closed());
    server.shutdown().await;
}

/// Sends a request of the administrator.
async fn ask(server: &Handle, path: &str) -> DuplexStream {
    let mut pipe = server.connector().connect().await.unwrap();
    let token = server.admin_token().reveal();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    pipe.write_all(head.as_bytes()).await.unwrap();
    pipe
}

/// Reads to the end of a connection; returns the time it took.
async fn time_to_end(mut pipe: DuplexStream) -> Duration {
    let began = Instant::now();
    let _ = pipe.read_to_end(&mut Vec::new()).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_request_head_has_a_shorter_limit_than_an_idle_connection() {
    let server = started().await;
    let idle = ask(&server, "/version").await;
    assert_eq!(time_to_end(idle).await, IDLE_TIMEOUT);
    let mut slow = ask(&server, "/version").await;
    slow.read_exact(&mut [0; 12]).await.unwrap();
    tokio::time::sleep(IDLE_TIMEOUT / 2).await;
    slow.write_all(b"GET /version HTTP/1.1\r\nhost: loc")
        .await
        .unwrap();
    assert_eq!(time_to_end(slow).await, HEADER_TIMEOUT);
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_http2_connection_is_closed_unless_it_has_a_watch() {
    let server = started().await;
    let connected = async || {
        let pipe = server.connector().connect().await.unwrap();
        Client::http2(pipe).await.with_token(&server)
    };
    let mut idle = connected().await;
    assert_eq!(idle.get("/version").await.status, 200);
    let (busy, _body) = unread(&server, &format!("{MAPS}?watch=1&resourceVersion=999999")).await;
    tokio::time::sleep(IDLE_TIMEOUT / 2).await;
    assert_eq!(idle.get("/version").await.status, 200);
    tokio::time::sleep(IDLE_TIMEOUT / 2 + Duration::from_secs(1)).await;
    assert_eq!(
        idle.get("/version").await.status,
        200,
        "it was idle for half of the limit"
    );
    tokio::time::sleep(IDLE_TIMEOUT + Duration::from_secs(1)).await;
    assert!(idle.try_send(Method::GET, "/version", &[], "").await.is_err());
    assert!(!busy.is_closed());
    server.shutdown().await;
}
