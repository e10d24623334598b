//! Hostile clients: each gets an error or is disconnected within a limit, without affecting others.

use std::net::{Ipv4Addr, SocketAddr};

use ::http::Method;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;
use tokio::time::Instant;
use watchkeeper_server::limits::{
    HANDSHAKE_TIMEOUT, HEADER_TIMEOUT, MAX_HEADER_BYTES, MAX_HEADERS, WRITE_STALL_TIMEOUT,
};
use watchkeeper_server::{Handle, Server};

use crate::client::Client;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn pipe(server: &Handle) -> DuplexStream {
    server.connector().connect().await.unwrap()
}

/// The server's response to these bytes before it closes the connection.
async fn answer_to(server: &Handle, bytes: &[u8]) -> String {
    let mut pipe = pipe(server).await;
    // It may close before it has read everything.
    let _ = pipe.write_all(bytes).await;
    read_to_end(&mut pipe).await
}

async fn read_to_end(io: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    let _ = io.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn assert_well(server: &Handle) {
    let mut client = Client::http2(pipe(server).await).await.with_token(server);
    assert_eq!(client.get("/api/v1/namespaces/default").await.status, 200);
}

#[tokio::test]
async fn an_oversized_head_is_rejected() {
    let server = Server::builder().start().await.unwrap();
    let head = "GET /version HTTP/1.1\r\nhost: localhost\r\n";
    let long = format!("{head}x: {}\r\n\r\n", "y".repeat(MAX_HEADER_BYTES));
    let many = format!("{head}{}\r\n", "x: y\r\n".repeat(MAX_HEADERS + 1));
    for request in [long, many] {
        let answer = answer_to(&server, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_well(&server).await;
    server.shutdown().await;
}

#[tokio::test]
async fn an_oversized_head_ends_one_stream_of_a_connection() {
    let server = Server::builder().start().await.unwrap();
    let mut client = Client::http2(pipe(&server).await).await.with_token(&server);
    let long = "y".repeat(MAX_HEADER_BYTES);
    match client
        .try_send(Method::GET, "/version", &[("x", &long)], "")
        .await
    {
        Ok(answer) => assert_eq!(answer.status, 431),
        Err(error) => assert!(!error.is_parse(), "{error}"),
    }
    assert_eq!(client.get("/version").await.status, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn a_client_that_does_not_speak_http_is_disconnected() {
    let server = Server::builder().start().await.unwrap();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"hello\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
    ] {
        let answer = answer_to(&server, bytes).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    assert_well(&server).await;
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_endless_head_times_out() {
    let server = Server::builder().start().await.unwrap();
    let mut slow = pipe(&server).await;
    slow.write_all(b"GET /version HTTP/1.1\r\nhost: loc")
        .await
        .unwrap();
    let began = Instant::now();
    read_to_end(&mut slow).await;
    assert!(began.elapsed() <= HEADER_TIMEOUT, "{:?}", began.elapsed());
    assert_well(&server).await;
    server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_disconnected() {
    let server = Server::builder().start().await.unwrap();
    let mut client = Client::http2(pipe(&server).await).await.with_token(&server);
    let body = format!(
        r#"{{"metadata":{{"name":"large"}},"data":{{"k":"{}"}}}}"#,
        "x".repeat(500_000)
    );
    client.send(Method::POST, CONFIG_MAPS, &[], &body).await;

    let mut deaf = pipe(&server).await;
    let token = server.admin_token().reveal();
    let request =
        format!("GET {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    deaf.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(2 * WRITE_STALL_TIMEOUT).await;
    let taken = read_to_end(&mut deaf).await;
    assert!(
        taken.len() < body.len(),
        "all of it was kept for {:?}",
        2 * WRITE_STALL_TIMEOUT
    );
    assert_well(&server).await;
    server.shutdown().await;
}

/// The client closes its write side and still waits for the response.
#[tokio::test]
async fn a_half_closed_connection_ends() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder().listen(address).start().await.unwrap();
    let mut plain = TcpStream::connect(server.address().unwrap()).await.unwrap();
    plain.shutdown().await.unwrap();
    assert_eq!(
        read_to_end(&mut plain).await,
        "",
        "a handshake cannot be finished any more"
    );

    let mut half = pipe(&server).await;
    half.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    half.shutdown().await.unwrap();
    // It ends, with or without a response.
    read_to_end(&mut half).await;
    assert_well(&server).await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_handshake_times_out() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder().listen(address).start().await.unwrap();
    let mut silent = TcpStream::connect(server.address().unwrap()).await.unwrap();
    // Others are served meanwhile.
    let mut client = Client::tls(&server, b"h2", None).await.with_token(&server);
    assert_eq!(client.get("/version").await.status, 200);
    tokio::time::pause();
    tokio::time::advance(2 * HANDSHAKE_TIMEOUT).await;
    assert_eq!(read_to_end(&mut silent).await, "");
    server.shutdown().await;
}

#[tokio::test]
async fn http_on_the_port_of_https_is_answered() {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::builder().listen(address).start().await.unwrap();
    let mut plain = TcpStream::connect(server.address().unwrap()).await.unwrap();
    plain
        .write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(
        read_to_end(&mut plain).await,
        "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    );
    server.shutdown().await;
}

#[tokio::test]
async fn a_thousand_idle_connections_do_not_affect_others() {
    let server = Server::builder().start().await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..1000 {
        let mut client = Client::http1(pipe(&server).await).await;
        assert_eq!(client.get("/livez").await.status, 200);
        idle.push(client);
    }
    assert_well(&server).await;
    server.shutdown().await;
}
