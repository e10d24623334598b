//! Measures the latency of a quiet client, alone and beside many greedy clients.
//!
//! `cargo run --release -p watchkeeper-server --example fairness [GREEDY]`, by default with 1,000 greedy clients. All
//! are in this process, and stop when the quiet client has finished.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints figures"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use watchkeeper_server::{Handle, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The objects that each greedy request lists.
const OBJECTS: usize = 500;
/// The requests of the quiet client in each phase.
const QUIET_REQUESTS: usize = 300;
/// The greedy clients per connection.
const PER_CONNECTION: usize = 100;

/// A connection that impersonates one user.
#[derive(Clone)]
struct Connection {
    sender: http2::SendRequest<Full<Bytes>>,
    token: String,
    user: Option<&'static str>,
}

impl Connection {
    async fn open(server: &Handle, user: Option<&'static str>) -> Self {
        let pipe = server.connector().connect().await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(pipe))
            .await
            .unwrap();
        tokio::spawn(connection);
        let token = server.admin_token().reveal().to_owned();
        Self { sender, token, user }
    }

    async fn send(&mut self, method: Method, path: &str, body: String) -> u16 {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://localhost{path}"))
            .header("authorization", format!("Bearer {}", self.token));
        if let Some(user) = self.user {
            request = request
                .header("impersonate-user", user)
                .header("impersonate-group", "readers");
        }
        let request = request.body(Full::from(body)).unwrap();
        let answer = self.sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        answer.into_body().collect().await.unwrap();
        status
    }
}

#[tokio::main]
async fn main() {
    let greedy = std::env::args()
        .nth(1)
        .map_or(1_000, |count| count.parse().unwrap());
    let server = Server::builder().start().await.unwrap();
    fill(&server).await;
    println!("quiet client alone:                 {}", quiet(&server).await);

    let (is_over, answered, rejected) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let flood = Arc::new((is_over, answered, rejected));
    let mut tasks = Vec::new();
    for number in 0..greedy {
        if number % PER_CONNECTION == 0 {
            tasks.push((Connection::open(&server, Some("greedy")).await, Vec::new()));
        }
        let (connection, tasks) = tasks.last_mut().unwrap();
        tasks.push(tokio::spawn(be_greedy(connection.clone(), flood.clone())));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("quiet client beside {greedy:>6} greedy: {}", quiet(&server).await);
    flood.0.store(true, Ordering::Relaxed);
    for task in tasks.into_iter().flat_map(|(_, tasks)| tasks) {
        task.await.unwrap();
    }
    let (answered, rejected) = (flood.1.load(Ordering::Relaxed), flood.2.load(Ordering::Relaxed));
    println!("greedy clients: {answered} requests answered, {rejected} rejected");
    server.shutdown().await;
}

async fn fill(server: &Handle) {
    let mut admin = Connection::open(server, None).await;
    let binding = json!({
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.send(Method::POST, path, binding.to_string()).await, 201);
    for number in 0..OBJECTS {
        let map = json!({"metadata": {"name": format!("map-{number}")}, "data": {"k": "x".repeat(1_000)}});
        assert_eq!(admin.send(Method::POST, MAPS, map.to_string()).await, 201);
    }
}

async fn be_greedy(mut connection: Connection, flood: Arc<(AtomicBool, AtomicU64, AtomicU64)>) {
    while !flood.0.load(Ordering::Relaxed) {
        match connection.send(Method::GET, MAPS, String::new()).await {
            429 => {
                flood.2.fetch_add(1, Ordering::Relaxed);
                // It waits as long as `Retry-After` says.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            _ => {
                flood.1.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The latencies of sequential requests.
async fn quiet(server: &Handle) -> String {
    let mut client = Connection::open(server, Some("quiet")).await;
    let mut times = Vec::new();
    for _ in 0..QUIET_REQUESTS {
        let began = Instant::now();
        let status = client
            .send(Method::GET, &format!("{MAPS}/map-0"), String::new())
            .await;
        assert_eq!(status, 200);
        times.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    times.sort();
    let at = |part: usize| times[times.len() * part / 100];
    format!("p50 {:?}, p99 {:?}, all {} answered", at(50), at(99), times.len())
}
