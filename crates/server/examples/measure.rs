//! Measures the server in-process: start, creates, lists and one write to many watches.
//!
//! ```text
//! cargo run --release -p watchkeeper-server --example measure -- 30000 1000
//! ```

use std::io::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use watchkeeper_server::{Handle, Server};

/// How often the write to many watches is repeated.
const WRITES: usize = 50;

/// How many watches share one connection.
const WATCHES_PER_CONNECTION: usize = 100;

/// How many creates are under way at once.
const WRITERS: usize = 64;

type Sender = SendRequest<Full<Bytes>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let objects = arguments.next().transpose()?.unwrap_or(10_000);
    let watches = arguments.next().transpose()?.unwrap_or(1_000);

    let began = Instant::now();
    let server = Server::builder().start().await?;
    report("start", began.elapsed());

    let took = create_pods(&server, objects).await?;
    report(&format!("create {objects} pods"), took);
    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let began = Instant::now();
        let bytes = list(
            &mut connect(&server).await?,
            accept,
            server.admin_token().reveal(),
        )
        .await?;
        report(&format!("list as {accept}, {bytes} bytes"), began.elapsed());
    }
    report(&format!("{} MiB resident", resident_mib()), Duration::ZERO);
    fan_out(&server, watches).await?;
    server.shutdown().await;
    Ok(())
}

async fn connect(server: &Handle) -> Result<Sender, Box<dyn std::error::Error>> {
    let pipe = server.connector().connect().await?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(64 << 20)
        .handshake(TokioIo::new(pipe))
        .await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn send(
    sender: &mut Sender,
    token: &str,
    method: Method,
    path: &str,
    accept: &str,
    body: String,
) -> hyper::Result<http::Response<Incoming>> {
    let request = Request::builder()
        .method(method)
        .uri(format!("http://localhost{path}"))
        .header("authorization", format!("Bearer {token}"))
        .header("accept", accept)
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    sender.send_request(request).await
}

async fn create_pods(server: &Handle, count: usize) -> Result<Duration, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let mut sender = connect(server).await?;
        let token = server.admin_token().reveal().to_owned();
        writers.spawn(async move {
            for index in (writer..count).step_by(WRITERS) {
                let path = "/api/v1/namespaces/default/pods";
                let answer = send(
                    &mut sender,
                    &token,
                    Method::POST,
                    path,
                    "application/json",
                    pod(index),
                )
                .await;
                let answer = answer.expect("an answer");
                assert_eq!(answer.status(), StatusCode::CREATED);
                answer.into_body().collect().await.expect("a body");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done?;
    }
    Ok(began.elapsed())
}

/// Two containers with ports, environment and volumes: what pods look like.
fn pod(index: usize) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{index:06}"),
            "labels": {"app": format!("app-{}", index % 50), "tier": "web", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"example.com/checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
        },
        "spec": {
            "containers": (0..2).map(|container| serde_json::json!({
                "name": format!("c{container}"), "image": "registry.example.com/team/app:1.2.3",
                "ports": [{"name": "http", "containerPort": 8080 + container}],
                "env": (0..6).map(|n| serde_json::json!({"name": format!("VAR_{n}"), "value": format!("value-{n}")})).collect::<Vec<_>>(),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
            })).collect::<Vec<_>>(),
            "volumes": [{"name": "config", "configMap": {"name": "app-config"}}],
        },
    })
    .to_string()
}

async fn list(sender: &mut Sender, accept: &str, token: &str) -> Result<usize, Box<dyn std::error::Error>> {
    let answer = send(sender, token, Method::GET, "/api/v1/pods", accept, String::new()).await?;
    let mut body = answer.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(bytes)
}

/// One write, many watches: how long until the last of them has it.
async fn fan_out(server: &Handle, watches: usize) -> Result<(), Box<dyn std::error::Error>> {
    let token = server.admin_token().reveal().to_owned();
    let (seen, mut all_seen) = tokio::sync::mpsc::unbounded_channel();
    let mut senders = Vec::new();
    for _ in 0..watches.div_ceil(WATCHES_PER_CONNECTION) {
        senders.push(connect(server).await?);
    }
    for index in 0..watches {
        let sender = &mut senders[index / WATCHES_PER_CONNECTION];
        let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0";
        let answer = send(
            sender,
            &token,
            Method::GET,
            path,
            "application/json",
            String::new(),
        )
        .await?;
        let seen = seen.clone();
        tokio::spawn(async move {
            let mut body = answer.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame
                    .data_ref()
                    .map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                for _ in 0..lines {
                    let _ = seen.send(());
                }
            }
        });
    }
    let mut times = Vec::new();
    let mut writer = connect(server).await?;
    for index in 0..WRITES {
        let path = "/api/v1/namespaces/default/configmaps";
        let body = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c{index}"}}}}"#);
        let began = Instant::now();
        let answer = send(&mut writer, &token, Method::POST, path, "application/json", body).await?;
        assert_eq!(answer.status(), StatusCode::CREATED);
        for _ in 0..watches {
            all_seen.recv().await;
        }
        times.push(began.elapsed());
    }
    times.sort();
    report(&format!("one write to {watches} watches, p50"), times[WRITES / 2]);
    report(
        &format!("one write to {watches} watches, p99"),
        times[WRITES * 99 / 100],
    );
    Ok(())
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

fn report(what: &str, took: Duration) {
    let _ = writeln!(
        std::io::stdout(),
        "{what:60} {:10.2} ms",
        took.as_secs_f64() * 1000.0
    );
}
