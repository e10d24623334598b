//! Quiet clients beside a flood: how long their requests take, alone and then beside thousands of others.
//!
//! `cargo run --release -p watchkeeper-bench-parts --bin fairness [GREEDY [SLOW [tcp]]]`
//!
//! Greedy clients list 500 objects in a loop. Slow ones ask for the same list, read a little of it and then nothing. There
//! are 1,000 greedy ones and no slow ones unless told otherwise, each with a connection of its own. All of them are in this
//! process, connected by pipes; with `tcp` by TLS over loopback, where each takes two file descriptors: with a limit of
//! 20,000 (`ulimit -n`) there is room for 9,900 of them, and more are not begun.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints figures"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use watchkeeper_server::{Handle, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
/// Objects that each greedy request lists.
const OBJECTS: usize = 500;
/// Requests of each quiet client in each phase.
const QUIET_REQUESTS: usize = 200;
/// What this process needs of its file descriptors besides connections.
const SPARE_FILES: usize = 200;

/// Whose requests are timed: what they are called, who they are, and what they ask for.
const TIMED: [(&str, Option<&str>, &str); 3] = [
    ("a quiet user", Some("quiet"), MAPS),
    ("system:masters", None, MAPS),
    ("a leader's lease", Some("system:kube-controller-manager"), LEASES),
];

/// The way to a server.
#[derive(Clone)]
struct Route {
    server: Arc<Handle>,
    tls: Option<TlsConnector>,
}

impl Route {
    fn new(server: Handle, over_tcp: bool) -> Self {
        let tls = over_tcp.then(|| {
            let authority = server.authority_pem().unwrap();
            let mut roots = rustls::RootCertStore::empty();
            let certificate = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
            roots.add(certificate).unwrap();
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            TlsConnector::from(Arc::new(config))
        });
        let server = Arc::new(server);
        Self { server, tls }
    }

    /// A connection of one user, whom the administrator acts for; `None` is the administrator.
    async fn connect(&self, user: Option<&'static str>) -> Connection {
        let sender = match &self.tls {
            None => {
                let pipe = self.server.connector().connect().await.unwrap();
                let (sender, connection) = http1::handshake(TokioIo::new(pipe)).await.unwrap();
                tokio::spawn(connection);
                sender
            }
            Some(tls) => {
                let stream = TcpStream::connect(self.server.address().unwrap()).await.unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                let stream = tls.connect(name, stream).await.unwrap();
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                sender
            }
        };
        let token = self.server.admin_token().reveal().to_owned();
        Connection { sender, token, user }
    }
}

struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    token: String,
    user: Option<&'static str>,
}

impl Connection {
    async fn open(&mut self, method: Method, path: &str, body: String) -> hyper::Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token));
        if let Some(user) = self.user {
            request = request
                .header("impersonate-user", user)
                .header("impersonate-group", "readers");
        }
        let request = request.body(Full::from(body)).unwrap();
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    async fn send(&mut self, method: Method, path: &str, body: String) -> hyper::Result<u16> {
        let answer = self.open(method, path, body).await?;
        let status = answer.status().as_u16();
        answer.into_body().collect().await?;
        Ok(status)
    }
}

/// What the flood has done so far.
#[derive(Default)]
struct Flood {
    is_over: AtomicBool,
    answered: AtomicU64,
    rejected: AtomicU64,
    cut_off: AtomicU64,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(default, |text| text.parse().unwrap());
    let over_tcp = arguments.iter().any(|argument| argument == "tcp");
    let (greedy, slow): (usize, usize) = (number(0, 1_000), number(1, 0));
    let room = if over_tcp {
        file_limit().saturating_sub(SPARE_FILES) / 2
    } else {
        usize::MAX
    };
    if greedy + slow > room {
        println!(
            "there is room for {room} connections: the limit of open files is {}",
            file_limit()
        );
    }
    let (greedy, slow) = (greedy.min(room), slow.min(room.saturating_sub(greedy)));

    let server = match over_tcp {
        true => Server::builder().listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        false => Server::builder(),
    };
    let route = Route::new(server.start().await.unwrap(), over_tcp);
    fill(&route).await;
    println!("alone");
    time_all(&route).await;

    let flood = Arc::new(Flood::default());
    let mut tasks = Vec::new();
    for _ in 0..greedy {
        tasks.push(tokio::spawn(be_greedy(route.clone(), flood.clone())));
    }
    for _ in 0..slow {
        tasks.push(tokio::spawn(be_slow(route.clone(), flood.clone())));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("beside {greedy} greedy and {slow} slow clients");
    time_all(&route).await;
    flood.is_over.store(true, Ordering::Relaxed);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    println!(
        "the flood: {} requests answered, {} rejected, {} slow readers cut off",
        count(&flood.answered),
        count(&flood.rejected),
        count(&flood.cut_off)
    );
}

/// How many files this process may have open.
fn file_limit() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    soft.unwrap_or(1_024)
}

async fn fill(route: &Route) {
    let mut admin = route.connect(None).await;
    let binding = json!({
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(
        admin.send(Method::POST, path, binding.to_string()).await.unwrap(),
        201
    );
    for number in 0..OBJECTS {
        let map = json!({"metadata": {"name": format!("o{number}")}, "data": {"k": "x".repeat(1_000)}});
        assert_eq!(
            admin.send(Method::POST, MAPS, map.to_string()).await.unwrap(),
            201
        );
    }
    let lease = json!({"metadata": {"name": "o0"}, "spec": {}});
    assert_eq!(
        admin.send(Method::POST, LEASES, lease.to_string()).await.unwrap(),
        201
    );
}

async fn be_greedy(route: Route, flood: Arc<Flood>) {
    let mut connection = route.connect(Some("greedy")).await;
    while !flood.is_over.load(Ordering::Relaxed) {
        match connection.send(Method::GET, MAPS, String::new()).await {
            Ok(429) => {
                flood.rejected.fetch_add(1, Ordering::Relaxed);
                // As it was asked to.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(_) => drop(flood.answered.fetch_add(1, Ordering::Relaxed)),
            Err(_) => connection = route.connect(Some("greedy")).await,
        }
    }
}

async fn be_slow(route: Route, flood: Arc<Flood>) {
    while !flood.is_over.load(Ordering::Relaxed) {
        let mut connection = route.connect(Some("slow")).await;
        let Ok(answer) = connection.open(Method::GET, MAPS, String::new()).await else {
            continue;
        };
        if answer.status() == 429 {
            flood.rejected.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        }
        let mut body = answer.into_body();
        // A frame every ten seconds is as good as nothing.
        while let Some(Ok(_)) = body.frame().await {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        flood.cut_off.fetch_add(1, Ordering::Relaxed);
    }
}

async fn time_all(route: &Route) {
    for (name, user, path) in TIMED {
        println!("  {name:<17} {}", timed(route, user, path).await);
    }
}

/// The times of some requests, one after the other, none of which may fail.
async fn timed(route: &Route, user: Option<&'static str>, path: &str) -> String {
    let mut client = route.connect(user).await;
    let mut times = Vec::new();
    for _ in 0..QUIET_REQUESTS {
        let began = Instant::now();
        let status = client
            .send(Method::GET, &format!("{path}/o0"), String::new())
            .await;
        assert_eq!(status.unwrap(), 200);
        times.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    times.sort();
    let at = |part: usize| times[times.len() * part / 100];
    format!("p50 {:?}, p99 {:?}, all {} answered", at(50), at(99), times.len())
}
