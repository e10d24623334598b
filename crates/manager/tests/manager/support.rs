//! Signals by hand, controllers that report their calls, and helpers for requests.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use watchkeeper_client::{Client, DynamicApi};
use watchkeeper_manager::{Manager, ManagerError};
use watchkeeper_meta::Resource;
use watchkeeper_runtime::controller::{Action, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, Selection};
use watchkeeper_runtime::informer::Informer;

/// Long enough for any machine; tests wait for what they expect, never for time to pass.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A running manager and its signals.
pub(crate) struct Process {
    signals: mpsc::UnboundedSender<()>,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl Process {
    /// Returns when it runs, or has failed to: an earlier signal would end it before it has started.
    pub(crate) async fn start(manager: Manager) -> Self {
        let (signals, received) = mpsc::unbounded_channel();
        let (begun, runs) = oneshot::channel();
        let manager = manager.always("beacon", |_| async {
            let _ = begun.send(());
            Ok::<_, Infallible>(())
        });
        let running = tokio::spawn(manager.run_until(stream_of(received)));
        let _ = soon(runs).await;
        Self { signals, running }
    }

    pub(crate) fn signal(&self) {
        self.signals.send(()).expect("it runs");
    }

    /// The result of a manager that was not asked to stop.
    pub(crate) async fn ended(self) -> Result<(), ManagerError> {
        soon(self.running).await.expect("no panic")
    }

    pub(crate) async fn stop(self) -> Result<(), ManagerError> {
        self.signal();
        self.ended().await
    }
}

fn stream_of(received: mpsc::UnboundedReceiver<()>) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold(received, |mut received| async move {
        received.recv().await.map(|()| ((), received))
    })
}

/// The result of a future that must complete.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it never came")
}

/// Retries until the answer is as expected.
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    soon(async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

/// Reports the objects it reconciles.
pub(crate) struct Telling(pub(crate) mpsc::UnboundedSender<String>);

impl Reconciler for Telling {
    type Error = Infallible;

    async fn reconcile(&self, request: Request) -> Result<Action, Infallible> {
        let _ = self.0.send(request.key.name().to_owned());
        Ok(Action::Done)
    }
}

pub(crate) fn maps_resource() -> Resource {
    Resource::namespaced("", "v1", "ConfigMap", "configmaps")
}

pub(crate) fn maps(client: &Client) -> DynamicApi {
    client.dynamic(maps_resource()).namespace("default")
}

/// A separate informer of the config maps in `default`.
pub(crate) fn informer(client: &Client) -> Informer {
    let factory = Factory::new(client.clone(), Default::default());
    let selection = Selection {
        namespaces: vec!["default".to_owned()],
        ..Selection::all(maps_resource())
    };
    factory.informer(selection)
}

/// A controller of the config maps in `default`.
pub(crate) fn controller(client: &Client) -> DynamicController {
    DynamicController::new("maps", informer(client), Default::default())
}

pub(crate) async fn create_map(client: &Client, name: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let created = maps(client).create(&map).await;
    created.expect("created");
}

/// A socket on a free port, and its address.
pub(crate) fn socket() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// The status code and the body of an answer.
pub(crate) async fn http_get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let code = answer.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((code, body.to_owned()))
}

/// The chain of an error in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// A member of an object by its JSON pointer.
pub(crate) fn text_at(object: &Value, pointer: &str) -> String {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}
