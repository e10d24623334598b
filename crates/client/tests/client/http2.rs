//! Details of HTTP/2, with a scripted server of frames.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response};
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio_util::io::InspectWriter;
use watchkeeper_client::{Client, ClientOptions, Error, InProcess, SendOptions};

type Server = Connection<DuplexStream, Bytes>;
type Asked = (Request<RecvStream>, SendResponse<Bytes>);

/// A client whose connections are each served by `serve`, and the number of connections.
fn client<F, S>(serve: F) -> (Client, Arc<AtomicUsize>)
where
    F: Fn(usize, Server) -> S + Clone + Send + Sync + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let connector = InProcess::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (serve, number) = (serve.clone(), counted.fetch_add(1, Ordering::SeqCst));
        tokio::spawn(async move { serve(number, h2::server::handshake(theirs).await.unwrap()).await });
        std::future::ready(Ok(ours))
    });
    (Client::in_process(connector, unlimited()), connections)
}

fn unlimited() -> ClientOptions {
    ClientOptions {
        rate_limit: None,
        ..Default::default()
    }
}

/// The next request, and a connection that stays open.
async fn next(server: &mut Server) -> Asked {
    server.accept().await.unwrap().unwrap()
}

fn answer(to: &mut SendResponse<Bytes>, status: u16, body: &'static str) {
    let head = Response::builder().status(status).body(()).unwrap();
    let mut stream = to.send_response(head, false).unwrap();
    stream
        .send_data(Bytes::from_static(body.as_bytes()), true)
        .unwrap();
}

/// Processes frames until the client is gone.
async fn finish(mut server: Server) {
    while let Some(Ok(_)) = server.accept().await {}
}

async fn send(client: &Client, method: Method, body: Vec<u8>) -> Result<String, Error> {
    let request = Request::builder().method(method).uri("/x");
    let request = request.body(Bytes::from(body)).unwrap();
    let response = client.send(request, &SendOptions::default()).await?;
    let bytes = response.into_body().collect(1 << 20).await.unwrap();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_is_retried_for_every_verb() {
    let (client, connections) = client(|_, mut server| async move {
        let (_, mut refused) = next(&mut server).await;
        refused.send_reset(Reason::REFUSED_STREAM);
        let (_, mut taken) = next(&mut server).await;
        answer(&mut taken, 200, "done");
        finish(server).await;
    });
    assert_eq!(send(&client, Method::POST, b"{}".to_vec()).await.unwrap(), "done");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_credential_is_indexed_by_hpack() {
    let (client, _) = client(|_, mut server| async move {
        let (request, mut to) = next(&mut server).await;
        let credential = &request.headers()[AUTHORIZATION];
        let indexed = !credential.is_sensitive() && credential == "Bearer long";
        answer(&mut to, 200, if indexed { "indexed" } else { "never indexed" });
        finish(server).await;
    });
    let mut request = Request::new(Bytes::new());
    let mut credential = HeaderValue::from_static("Bearer long");
    credential.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, credential);
    let answer = client.send(request, &SendOptions::default()).await.unwrap();
    assert_eq!(answer.into_body().collect(64).await.unwrap(), "indexed");
}

#[tokio::test]
async fn a_broken_write_is_not_retried() {
    let (client, _) = client(|_, mut server| async move {
        let (_, mut broken) = next(&mut server).await;
        broken.send_reset(Reason::INTERNAL_ERROR);
        finish(server).await;
    });
    let error = send(&client, Method::POST, b"{}".to_vec()).await.unwrap_err();
    assert!(error.is_connection_lost(), "{error}");
}

#[tokio::test]
async fn goaway_finishes_open_streams_and_stops_new_ones() {
    let goodbye = Arc::new(Notify::new());
    let told = goodbye.clone();
    let (client, connections) = client(move |number, mut server| {
        let goodbye = goodbye.clone();
        async move {
            let (_, mut first) = next(&mut server).await;
            let mut stream = first.send_response(Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(b"one "), false).unwrap();
            if number == 0 {
                tokio::select! {
                    () = goodbye.notified() => server.graceful_shutdown(),
                    _ = server.accept() => panic!("nothing else was asked"),
                }
            }
            stream.send_data(Bytes::from_static(b"two"), true).unwrap();
            finish(server).await;
        }
    });
    let request = Request::new(Bytes::new());
    let watch = SendOptions {
        watch: true,
        ..Default::default()
    };
    let mut body = client.send(request, &watch).await.unwrap().into_body();
    assert_eq!(body.chunk().await.unwrap().unwrap(), "one ");
    told.notify_one();
    assert_eq!(
        body.collect(1 << 10).await.unwrap(),
        "two",
        "open streams are finished"
    );
    assert_eq!(send(&client, Method::POST, Vec::new()).await.unwrap(), "one two");
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    assert_eq!(client.open_connections(), 1);
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_is_read() {
    let (client, _) = client(|_, mut server| async move {
        let (request, mut early) = next(&mut server).await;
        answer(&mut early, 413, "too large");
        // A request dropped unread is reset, without an error, after the answer.
        drop(request);
        finish(server).await;
    });
    // More than the server's window, so that part of it is never sent.
    let error = send(&client, Method::POST, vec![b' '; 1 << 20])
        .await
        .unwrap_err();
    assert_eq!(error.status().unwrap().code, 413, "{error}");
}

#[tokio::test]
async fn a_large_request_respects_flow_control() {
    const LENGTH: usize = 1 << 20;
    let (client, _) = client(|_, mut server| async move {
        let (request, mut response) = next(&mut server).await;
        assert_eq!(request.headers()["content-length"], LENGTH.to_string());
        let reading = tokio::spawn(async move {
            let (mut body, mut length) = (request.into_body(), 0);
            while let Some(chunk) = body.data().await {
                let chunk = chunk.unwrap();
                length += chunk.len();
                body.flow_control().release_capacity(chunk.len()).unwrap();
            }
            assert_eq!(length, LENGTH);
            answer(&mut response, 200, "read");
        });
        finish(server).await;
        reading.await.unwrap();
    });
    assert_eq!(
        send(&client, Method::PUT, vec![b' '; LENGTH]).await.unwrap(),
        "read"
    );
}

#[tokio::test]
async fn connection_specific_headers_are_not_sent() {
    let (client, _) = client(|_, mut server| async move {
        let (request, mut response) = next(&mut server).await;
        assert!(!request.headers().contains_key("connection"));
        assert_eq!(request.headers()["x-kept"], "yes");
        answer(&mut response, 200, "fine");
        finish(server).await;
    });
    let request = Request::get("/x")
        .header("connection", "close")
        .header("keep-alive", "1")
        .header("x-kept", "yes")
        .body(Bytes::new())
        .unwrap();
    let response = client.send(request, &SendOptions::default()).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn an_unused_connection_is_closed() {
    let closed = Arc::new(Notify::new());
    let tell = closed.clone();
    let (client, _) = client(move |_, mut server| {
        let tell = tell.clone();
        async move {
            let (_, mut response) = next(&mut server).await;
            answer(&mut response, 200, "fine");
            finish(server).await;
            tell.notify_one();
        }
    });
    send(&client, Method::GET, Vec::new()).await.unwrap();
    drop(client);
    closed.notified().await;
}

#[tokio::test]
async fn concurrent_requests_share_writes() {
    const REQUESTS: usize = 16;
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    let client = Client::in_process(
        InProcess::new(move || {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            tokio::spawn(async move {
                let mut server = h2::server::handshake(theirs).await.unwrap();
                while let Some(Ok((_, mut response))) = server.accept().await {
                    answer(&mut response, 200, "fine");
                }
            });
            let counted = counted.clone();
            let count = move |_: &[u8]| {
                counted.fetch_add(1, Ordering::SeqCst);
            };
            std::future::ready(Ok(InspectWriter::new(ours, count)))
        }),
        unlimited(),
    );
    let get = || send(&client, Method::GET, Vec::new());
    get().await.unwrap();

    let before = writes.load(Ordering::SeqCst);
    for answer in join_all((0..REQUESTS).map(|_| get())).await {
        assert_eq!(answer.unwrap(), "fine");
    }
    // The connection's task writes what was sent before it runs.
    let written = writes.load(Ordering::SeqCst) - before;
    assert!(written < REQUESTS / 2, "{written} writes");
}
