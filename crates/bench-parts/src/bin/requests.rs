//! Measures the cost of one small write in the server, from the request to the response and the event.
//!
//! As in a program on the same machine, single writes come over HTTP/1.1, and a watch of all namespaces is open over
//! HTTP/2. The server runs on its own thread, so that a profiler can separate its work from the client's:
//!
//! ```text
//! cargo build --release -p watchkeeper-bench-parts --bin requests
//! valgrind --tool=callgrind --separate-threads=yes target/release/requests pod 300
//! valgrind --tool=callgrind --separate-threads=yes target/release/requests pod 300 application/json
//! ```
//!
//! The difference to a second run with fewer writes removes the cost of the start.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mimalloc::MiMalloc;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_rustls::client::TlsStream;
use watchkeeper_bench_parts::connector::{Failure, connector};
use watchkeeper_registry::Registry;
use watchkeeper_server::{Handle, Server};
use watchkeeper_wire::protobuf::{Envelope, encode_message};
use watchkeeper_wire::schema::Schema;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Two containers, an owner, a status and the fields of two managers.
const POD: &str = include_str!("../../../bench-codec/src/pod.json");
const NAMESPACE: &str = "bench";
const NAME: &str = "written";
const WRITES: usize = 2_000;
/// Other objects of the kind, which are not written.
const OTHERS: usize = 3_000;
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "pod".to_owned());
    let (kind, plural) = match what.as_str() {
        "pod" => ("Pod", "pods"),
        _ => ("ConfigMap", "configmaps"),
    };
    let writes = arguments.next().map(|text| text.parse()).transpose()?;
    let writes = writes.unwrap_or(WRITES);
    let accept = arguments.next().unwrap_or_else(|| PROTOBUF.to_owned());

    let (ready, started) = std::sync::mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = thread::Builder::new().name("server".to_owned()).spawn(move || {
        one_thread()?.block_on(async {
            let server = Server::builder().listen("127.0.0.1:0".parse()?).start().await?;
            load(server.registry(), kind, plural).await?;
            ready.send(Door::of(&server)?)?;
            let _ = stopped.await;
            server.shutdown().await;
            Ok::<_, Failure>(())
        })
    })?;
    let door = started.recv()?;
    let times = one_thread()?.block_on(write(&door, plural, &accept, writes))?;
    drop(stop);
    serving.join().map_err(|_| "the server panicked")??;
    report(&what, times);
    Ok(())
}

fn one_thread() -> std::io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// The address and credentials of the server.
struct Door {
    address: String,
    authority: String,
    authorization: String,
}

impl Door {
    fn of(server: &Handle) -> Result<Self, Failure> {
        Ok(Self {
            address: server.address().ok_or("no port")?.to_string(),
            authority: server.authority_pem().ok_or("no authority")?,
            authorization: format!("Bearer {}", server.admin_token().reveal()),
        })
    }

    async fn connect(&self, protocol: &str) -> Result<TokioIo<TlsStream<TcpStream>>, Failure> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let tls = connector(self.authority.as_bytes(), protocol, None)?;
        let tls = tls.connect(ServerName::try_from("localhost")?, stream);
        Ok(TokioIo::new(tls.await?))
    }

    /// Watches a resource in protobuf.
    async fn watch(&self, plural: &str) -> Result<Incoming, Failure> {
        let builder = http2::Builder::new(TokioExecutor::new());
        let (mut client, connection) = builder.handshake(self.connect("h2").await?).await?;
        tokio::spawn(connection);
        let uri = format!("https://{}/api/v1/{plural}?watch=1", self.address);
        let request = self.request(Method::GET, uri, PROTOBUF, String::new())?;
        let events = client.send_request(request).await?.into_body();
        // The connection ends with its last sender.
        tokio::spawn(async move {
            let _client = client;
            std::future::pending::<()>().await
        });
        Ok(events)
    }

    fn request(
        &self,
        method: Method,
        uri: String,
        accept: &str,
        body: String,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        Ok(Request::builder()
            .method(method)
            .uri(uri)
            .header("host", &self.address)
            .header("authorization", &self.authorization)
            .header("user-agent", "requests/1.0")
            .header("accept", accept)
            .header("content-type", "application/merge-patch+json")
            .body(Full::new(Bytes::from(body)))?)
    }
}

/// Stores the written object and the others directly: only changes are measured.
async fn load(registry: &Registry, kind: &str, plural: &str) -> Result<(), Failure> {
    let mut object = match kind {
        "Pod" => serde_json::from_str(&pod())?,
        _ => json!({"metadata": {"uid": "5eed"}, "data": {"colour": "blue"}}),
    };
    if let Value::Object(metadata) = &mut object["metadata"] {
        metadata.remove("resourceVersion");
    }
    store(registry, kind, plural, &mut object, NAME).await?;
    for other in 0..OTHERS {
        store(registry, kind, plural, &mut object, &format!("other-{other}")).await?;
    }
    Ok(())
}

async fn store(
    registry: &Registry,
    kind: &str,
    plural: &str,
    object: &mut Value,
    name: &str,
) -> Result<(), Failure> {
    object["metadata"]["namespace"] = json!(NAMESPACE);
    object["metadata"]["name"] = json!(name);
    let schema = Schema::builtin();
    let id = schema.kind("v1", kind).ok_or("no such kind")?;
    let mut bytes = Vec::new();
    Envelope {
        api_version: "v1",
        kind,
        raw: &encode_message(schema, id, object)?,
    }
    .write(&mut bytes);
    let key = format!("/registry/{plural}/{NAMESPACE}/{name}");
    registry.store().create(&key, bytes.into(), None).await?;
    Ok(())
}

fn pod() -> String {
    let uid = "0a1b2c3d-5eed-4e1c-98bf-000000000001";
    POD.replace("$OWNER_UID", uid)
        .replace("$UID", uid)
        .replace("$OWNER", "app-1-7d4b9c6f58")
        .replace("$POD_IP", "10.0.0.9")
        .replace("$NODE", "node-1")
        .replace("$APP", "app-1")
}

/// Sequential writes; each waits for the response and the event of the previous one.
async fn write(door: &Door, plural: &str, accept: &str, writes: usize) -> Result<Vec<Duration>, Failure> {
    let mut events = door.watch(plural).await?;
    // Initial events are ordered by name; the written object is the last.
    while memchr::memmem::find(&next(&mut events).await?, NAME.as_bytes()).is_none() {}
    let (mut client, connection) = http1::handshake(door.connect("http/1.1").await?).await?;
    tokio::spawn(connection);
    let path = format!("/api/v1/namespaces/{NAMESPACE}/{plural}/{NAME}");
    let mut times = Vec::with_capacity(writes);
    for write in 0..writes {
        let patch = json!({"metadata": {"annotations": {"write": write.to_string()}}});
        let request = door.request(Method::PATCH, path.clone(), accept, patch.to_string())?;
        let began = Instant::now();
        let answer = client.send_request(request).await?;
        if answer.status() != StatusCode::OK {
            let body = answer.into_body().collect().await?.to_bytes();
            return Err(String::from_utf8_lossy(&body).into());
        }
        answer.into_body().collect().await?;
        next(&mut events).await?;
        times.push(began.elapsed());
        client.ready().await?;
    }
    Ok(times)
}

/// The next events; a single event is a frame of its own.
async fn next(events: &mut Incoming) -> Result<Bytes, Failure> {
    let frame = events.frame().await.ok_or("the watch has ended")??;
    frame.into_data().map_err(|_| "trailers".into())
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!(
        "{what}: p50 {:?}, p99 {:?} until answer and event have come",
        at(50),
        at(99)
    );
}
