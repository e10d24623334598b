//! The guarantees of the REST client, with a scripted server in the same process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Answer, Server, answer, unlimited};
use bytes::Bytes;
use expect_test::expect;
use http::{Method, Request};
use serde_json::json;
use tokio::time::Instant;
use watchkeeper_client::config::{Config, Credentials};
use watchkeeper_client::{
    Client, ClientOptions, Error, ErrorKind, RateLimit, RequestMetrics, Secret, SendOptions,
};
use watchkeeper_meta::{Collect, MetricsText};

fn request(method: Method, path: &str) -> Request<Bytes> {
    Request::builder()
        .method(method)
        .uri(path)
        .body(Bytes::new())
        .unwrap()
}

async fn text(client: &Client, method: Method, path: &str) -> Result<String, Error> {
    let response = client
        .send(request(method, path), &SendOptions::default())
        .await?;
    let bytes = response.into_body().collect(1 << 20).await.unwrap();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[tokio::test]
async fn get_raw_returns_the_body_of_any_path() {
    let server = Server::new([answer(200, &[], "{\"major\":\"1\"}")]);
    let client = server.client(unlimited());
    assert_eq!(
        client.get_raw("/version", 1 << 20).await.unwrap(),
        "{\"major\":\"1\"}"
    );
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.uri.as_str()), ("GET", "/version"));
    assert_eq!(seen.version, http::Version::HTTP_2);
    assert_eq!(seen.headers["user-agent"], "test/1.0");
}

#[tokio::test]
async fn a_client_opens_no_connection_until_it_is_used() {
    let server = Server::default();
    let client = server.client(unlimited());
    assert_eq!((server.connections(), client.open_connections()), (0, 0));
}

#[tokio::test]
async fn failures_carry_status_verb_and_url() {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "pods \"a\" not found", "reason": "NotFound",
        "details": {"name": "a", "kind": "pods"}, "code": 404,
    });
    let server = Server::new([crate::support::json(404, status)]);
    let error = text(
        &server.client(unlimited()),
        Method::GET,
        "/api/v1/namespaces/x/pods/a",
    )
    .await
    .unwrap_err();
    assert!(error.is_not_found() && !error.is_conflict());
    assert_eq!(error.status().unwrap().message, "pods \"a\" not found");
    assert_eq!(
        error.to_string(),
        "GET http://localhost/api/v1/namespaces/x/pods/a: pods \"a\" not found"
    );
}

#[tokio::test]
async fn answers_of_other_servers_are_recognized() {
    async fn check(script: Answer, expected: &str) {
        let server = Server::new([script]);
        let error = text(&server.client(unlimited()), Method::GET, "/api")
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), format!("GET http://localhost/api: {expected}"));
    }
    check(
        answer(302, &[("location", "https://login.example")], ""),
        "the server redirects to \"https://login.example\"; is this a Kubernetes API server?",
    )
    .await;
    check(
        answer(500, &[("content-type", "text/html")], "<html>oops</html>"),
        "an error on the server (\"<html>oops</html>\") has prevented the request from succeeding",
    )
    .await;
    check(
        answer(404, &[], "404 page not found"),
        "the server could not find the requested resource",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_with_retry_after_is_retried() {
    let busy = || answer(429, &[("retry-after", "2")], "busy");
    let server = Server::new([busy(), busy(), answer(200, &[], "done")]);
    let begun = Instant::now();
    let client = server.client(unlimited());
    assert_eq!(text(&client, Method::POST, "/x").await.unwrap(), "done");
    assert_eq!(begun.elapsed().as_secs(), 4);
    assert_eq!(server.lines(), ["POST /x", "POST /x", "POST /x"]);
}

#[tokio::test(start_paused = true)]
async fn after_ten_repeats_the_error_is_returned_with_the_one_before() {
    let server = Server::new((0..20).map(|_| answer(503, &[("retry-after", "1")], "down")));
    let error = text(&server.client(unlimited()), Method::GET, "/x")
        .await
        .unwrap_err();
    assert_eq!(server.seen().len(), 11);
    assert!(error.is_service_unavailable());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    assert!(
        error
            .to_string()
            .contains(" - error from a previous attempt: GET http://localhost/x: "),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_may_be_a_date() {
    let server = Server::new([
        answer(503, &[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], "busy"),
        answer(200, &[], "done"),
    ]);
    let begun = Instant::now();
    let client = server.client(unlimited());
    assert_eq!(text(&client, Method::GET, "/x").await.unwrap(), "done");
    assert_eq!(begun.elapsed().as_secs(), 0, "the date has passed");
}

#[tokio::test]
async fn a_failure_without_retry_after_is_final() {
    let server = Server::new([answer(500, &[], "oops")]);
    assert!(
        text(&server.client(unlimited()), Method::GET, "/x")
            .await
            .unwrap_err()
            .is_internal_error()
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_reads_are_retried_after_a_lost_connection() {
    let server = Server::new([Answer::Cut, answer(200, &[], "done")]);
    assert_eq!(
        text(&server.client(unlimited()), Method::GET, "/x")
            .await
            .unwrap(),
        "done"
    );

    let server = Server::new([Answer::Cut, answer(200, &[], "done")]);
    let error = text(&server.client(unlimited()), Method::POST, "/x")
        .await
        .unwrap_err();
    assert!(error.is_connection_lost(), "{error:?}");
    assert_eq!(server.lines(), ["POST /x"]);
}

/// Busy once, then an answer; then one that never comes.
#[tokio::test(start_paused = true)]
async fn requests_are_counted_as_client_go_counts_them() {
    let busy = answer(429, &[("retry-after", "2")], "busy");
    let server = Server::new([busy, answer(200, &[], "x".repeat(300)), Answer::Cut]);
    let metrics = Arc::new(RequestMetrics::default());
    let options = ClientOptions {
        metrics: Some(metrics.clone()),
        ..unlimited()
    };
    let client = server.client(options);
    text(&client, Method::GET, "/x").await.unwrap();
    text(&client, Method::POST, "/x").await.unwrap_err();

    let mut shown = MetricsText::default();
    metrics.collect(&mut shown);
    let shown = shown.into_string();
    let not_empty = |line: &&str| {
        let telling = ["_total", "_sum", "_count"]
            .iter()
            .any(|word| line.contains(word));
        telling && !line.starts_with('#') && !line.ends_with(" 0")
    };
    let lines: Vec<&str> = shown.lines().filter(not_empty).collect();
    expect![[r#"
        rest_client_requests_total{code="200",host="localhost",method="GET"} 1
        rest_client_requests_total{code="429",host="localhost",method="GET"} 1
        rest_client_requests_total{code="<error>",host="localhost",method="POST"} 1
        rest_client_request_retries_total{code="200",host="localhost",verb="GET"} 1
        rest_client_request_duration_seconds_sum{host="localhost",verb="GET"} 2
        rest_client_request_duration_seconds_count{host="localhost",verb="GET"} 1
        rest_client_request_duration_seconds_count{host="localhost",verb="POST"} 1
        rest_client_request_size_bytes_count{host="localhost",verb="GET"} 2
        rest_client_request_size_bytes_count{host="localhost",verb="POST"} 1
        rest_client_response_size_bytes_sum{host="localhost",verb="GET"} 304
        rest_client_response_size_bytes_count{host="localhost",verb="GET"} 2"#]]
    .assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn warnings_reach_the_handler() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = heard.clone();
    let options = ClientOptions {
        warnings: Arc::new(move |warning| listener.lock().unwrap().push(warning.text.clone())),
        ..unlimited()
    };
    let server = Server::new([answer(200, &[("warning", "299 - \"v1beta1 is deprecated\"")], "")]);
    text(&server.client(options), Method::GET, "/x").await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["v1beta1 is deprecated"]);
}

/// Five a second and ten at once.
#[tokio::test(start_paused = true)]
async fn the_default_limit_is_that_of_client_go() {
    let server = Server::new((0..15).map(|_| answer(200, &[], "")));
    let client = server.client(ClientOptions {
        rate_limit: Some(RateLimit::default()),
        ..Default::default()
    });
    let mut at = Vec::new();
    let begun = Instant::now();
    for _ in 0..15 {
        text(&client, Method::GET, "/x").await.unwrap();
        at.push(begun.elapsed().as_millis());
    }
    assert_eq!(at[9..], [0, 200, 400, 600, 800, 1000]);
}

#[tokio::test(start_paused = true)]
async fn by_default_there_is_no_rate_limit() {
    let server = Server::new((0..100).map(|_| answer(200, &[], "")));
    let client = server.client(ClientOptions::default());
    let begun = Instant::now();
    for _ in 0..100 {
        text(&client, Method::GET, "/x").await.unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn watches_are_exempt_from_the_rate_limit() {
    let server = Server::new((0..8).map(|_| answer(200, &[], "")));
    let client = server.client(ClientOptions {
        rate_limit: Some(RateLimit { qps: 1.0, burst: 2 }),
        ..unlimited()
    });
    let begun = Instant::now();
    for _ in 0..4 {
        text(&client, Method::GET, "/x").await.unwrap();
    }
    assert_eq!(begun.elapsed().as_secs(), 2);
    let watch = SendOptions {
        watch: true,
        ..Default::default()
    };
    for _ in 0..4 {
        client
            .send(request(Method::GET, "/x?watch=true"), &watch)
            .await
            .unwrap();
    }
    assert_eq!(begun.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_enforced_and_sent() {
    let (silent, _keep) = crate::support::streamed("application/json");
    let server = Server::new([silent]);
    let options = ClientOptions {
        timeout: Some(Duration::from_secs(30)),
        ..unlimited()
    };
    let client = server.client(options);
    let mut body = client
        .send(request(Method::GET, "/x?limit=1"), &SendOptions::default())
        .await
        .unwrap();
    let begun = Instant::now();
    let error = body.body_mut().chunk().await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the deadline passed in the middle of the answer"
    );
    assert_eq!(begun.elapsed().as_secs(), 30);
    assert_eq!(server.lines(), ["GET /x?limit=1&timeout=30s"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_ends_in_a_deadline() {
    // A peer that accepts bytes and never answers.
    let connector = watchkeeper_client::InProcess::new(|| {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        tokio::spawn(async move { tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await });
        std::future::ready(Ok(ours))
    });
    let client = Client::in_process(connector, unlimited());
    let options = SendOptions {
        timeout: Some(Duration::from_secs(5)),
        ..Default::default()
    };
    let error = client
        .send(request(Method::GET, "/x"), &options)
        .await
        .unwrap_err();
    assert!(
        error.is_deadline() && matches!(error.kind(), ErrorKind::Deadline(_)),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_peer_is_detected_within_45_seconds() {
    let connector = watchkeeper_client::InProcess::new(|| {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        tokio::spawn(async move { tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await });
        std::future::ready(Ok(ours))
    });
    let client = Client::in_process(connector, unlimited());
    let begun = Instant::now();
    let error = client
        .send(request(Method::POST, "/x"), &SendOptions::default())
        .await
        .unwrap_err();
    assert!(error.is_connection_lost(), "{}", chain(&error));
    assert!(
        chain(&error).ends_with("the server gave no sign of life for 45s"),
        "{}",
        chain(&error)
    );
    assert_eq!(begun.elapsed().as_secs(), 45);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once_and_live_streams_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "old").unwrap();
    let unauthorized = || answer(401, &[], "Unauthorized");
    let (stream, sender) = crate::support::streamed("application/json");
    let server = Server::new([stream, unauthorized(), answer(200, &[], "b"), unauthorized()]);
    let mut config = Config::new("https://kube".parse().unwrap());
    config.credentials = Credentials::TokenFile {
        path: path.clone(),
        fallback: None,
    };
    let client = Client::in_process_as(server.connector(), &config, unlimited()).unwrap();

    let watch = SendOptions {
        watch: true,
        ..Default::default()
    };
    let watching = client.send(request(Method::GET, "/watch"), &watch).await;
    std::fs::write(&path, "new").unwrap();
    assert_eq!(text(&client, Method::POST, "/x").await.unwrap(), "b");
    assert!(
        text(&client, Method::POST, "/x")
            .await
            .unwrap_err()
            .is_unauthorized()
    );
    let sent: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.headers["authorization"].clone())
        .collect();
    assert_eq!(sent, ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]);
    sender.send(Ok(Bytes::from_static(b"still here"))).unwrap();
    let chunk = watching.unwrap().into_body().chunk().await;
    assert_eq!(chunk.unwrap().unwrap(), "still here");
}

#[tokio::test]
async fn secrets_are_not_in_errors() {
    let mut config = Config::new("https://kube".parse().unwrap());
    config.credentials = Credentials::Token(Secret::new("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
    let server = Server::new([Answer::Cut]);
    let client = Client::in_process_as(server.connector(), &config, unlimited()).unwrap();
    let error = text(&client, Method::POST, "/x").await.unwrap_err();
    assert!(!format!("{error:?} {error} {client:?}").contains("hunter2"));
}

#[tokio::test]
async fn gzip_is_decompressed() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"hello").unwrap();
    let packed = encoder.finish().unwrap();
    let cut = Bytes::copy_from_slice(&packed[..packed.len() - 3]);
    let gzip = [("content-encoding", "gzip")];
    let server = Server::new([answer(200, &gzip, packed), answer(200, &gzip, cut)]);
    let mut config = Config::new("https://kube".parse().unwrap());
    config.compression = true;
    let client = Client::in_process_as(server.connector(), &config, unlimited()).unwrap();
    assert_eq!(client.get_raw("/x", 1 << 20).await.unwrap(), "hello");
    let error = client.get_raw("/x", 1 << 20).await.unwrap_err();
    assert!(
        error.to_string().ends_with("the answer cannot be unpacked"),
        "{error}"
    );
}

#[tokio::test]
async fn the_path_prefix_is_added_to_every_path() {
    let server = Server::new([answer(200, &[], "")]);
    let config = Config::new("https://rancher/k8s/clusters/c-1/".parse().unwrap());
    let client = Client::in_process_as(server.connector(), &config, unlimited()).unwrap();
    text(&client, Method::GET, "/api/v1/pods?limit=1").await.unwrap();
    assert_eq!(server.lines(), ["GET /k8s/clusters/c-1/api/v1/pods?limit=1"]);
}

/// A server that allows two streams on a connection.
#[tokio::test]
async fn a_server_that_allows_fewer_streams_gets_more_connections() {
    let server = Server::default();
    let connector = {
        let server = server.clone();
        watchkeeper_client::InProcess::new(move || {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            tokio::spawn(server.clone().serve_with_streams(theirs, 2));
            std::future::ready(Ok(ours))
        })
    };
    let client = Client::in_process(connector, unlimited());
    server.push(answer(200, &[], "the server has said what it allows"));
    text(&client, Method::GET, "/x").await.unwrap();
    let mut keep = Vec::new();
    for open in 1..=5 {
        let (stream, sender) = crate::support::streamed("application/json");
        server.push(stream);
        let watch = SendOptions {
            watch: true,
            ..Default::default()
        };
        let body = client.send(request(Method::GET, "/x"), &watch).await.unwrap();
        keep.push((body, sender));
        assert_eq!(
            client.open_connections(),
            usize::div_ceil(open, 2),
            "{open} streams"
        );
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_hundred_streams_share_a_connection_and_more_open_another() {
    let mut keep = Vec::new();
    let server = Server::default();
    for _ in 0..101 {
        let (stream, sender) = crate::support::streamed("application/json");
        server.push(stream);
        keep.push(sender);
    }
    let client = server.client(unlimited());
    let watch = SendOptions {
        watch: true,
        ..Default::default()
    };
    let mut bodies = Vec::new();
    for _ in 0..100 {
        bodies.push(client.send(request(Method::GET, "/x"), &watch).await.unwrap());
    }
    assert_eq!(server.connections(), 1);
    bodies.push(client.send(request(Method::GET, "/x"), &watch).await.unwrap());
    assert_eq!(server.connections(), 2);
}

/// A host that is silent for ten seconds, then refuses.
#[tokio::test(start_paused = true)]
async fn requests_to_a_dead_host_share_one_failed_attempt() {
    let dials = Arc::<AtomicUsize>::default();
    let count = dials.clone();
    let connector = watchkeeper_client::InProcess::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Err::<tokio::io::DuplexStream, _>(std::io::ErrorKind::ConnectionRefused.into())
        }
    });
    let client = Client::in_process(connector, unlimited());
    for round in 1..=2 {
        let begun = Instant::now();
        let asked = futures_util::future::join_all((0..100).map(|_| text(&client, Method::POST, "/x"))).await;
        assert!(
            asked
                .iter()
                .all(|result| result.as_ref().is_err_and(Error::is_connection_refused))
        );
        assert_eq!(begun.elapsed().as_secs(), 10);
        assert_eq!(dials.load(Ordering::SeqCst), round, "later requests try again");
    }
}

/// A server restarted between two requests: the second one, whatever its verb, uses a new connection.
#[tokio::test]
async fn a_connection_closed_between_requests_is_replaced() {
    let server = Server::new([answer(200, &[], "one"), answer(200, &[], "two")]);
    let serving: Arc<Mutex<Vec<tokio::task::JoinHandle<()>>>> = Arc::default();
    let (tasks, serve) = (serving.clone(), server.clone());
    let connector = watchkeeper_client::InProcess::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tasks
            .lock()
            .unwrap()
            .push(tokio::spawn(serve.clone().serve(theirs)));
        std::future::ready(Ok(ours))
    });
    let client = Client::in_process(connector, unlimited());
    assert_eq!(text(&client, Method::POST, "/x").await.unwrap(), "one");
    let first = serving.lock().unwrap().pop().unwrap();
    first.abort();
    let _ = first.await;
    // The client had no chance to notice.
    assert_eq!(text(&client, Method::POST, "/x").await.unwrap(), "two");
    assert_eq!(server.connections(), 2);
}
