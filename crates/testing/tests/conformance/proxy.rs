//! A proxy in front of an embedded server, with one fault.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use watchkeeper_client::config::Credentials;
use watchkeeper_client::{Client, Config, InProcess, Secret};
use watchkeeper_server::Connector;
use watchkeeper_testing::{TestCluster, unlimited};

use crate::fault::{Events, Fault, Query};

/// The longest time an event is held back for another one.
const LONGEST_HOLD: Duration = Duration::from_secs(1);

type Body = BoxBody<Bytes, Infallible>;

/// The proxy, shared by its connections.
pub(crate) struct Proxy {
    server: Connector,
    fault: Fault,
    memory: Mutex<Memory>,
}

/// Data the proxy has seen.
#[derive(Default)]
struct Memory {
    /// The first list that passed.
    list: Option<Value>,
    writes: u64,
    events: usize,
}

/// A client of a cluster, through a proxy.
pub(crate) fn client(cluster: &TestCluster, fault: Fault) -> Client {
    let proxy = Arc::new(Proxy {
        server: cluster.server().connector(),
        fault,
        memory: Mutex::default(),
    });
    let pipes = InProcess::new(move || {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        tokio::spawn(proxy.clone().serve(theirs));
        std::future::ready(Ok(ours))
    });
    let mut config = Config::new(Uri::from_static("http://localhost"));
    config.credentials = Credentials::Token(Secret::new(cluster.server().admin_token().reveal()));
    Client::in_process_as(pipes, &config, unlimited()).unwrap()
}

impl Proxy {
    async fn serve(self: Arc<Self>, io: DuplexStream) {
        let service = service_fn(|request| {
            let proxy = self.clone();
            async move { Ok::<_, Infallible>(proxy.respond(request).await) }
        });
        // A client that disconnects is not an error.
        let _ = auto::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(io), service)
            .await;
    }

    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        // The connection to the server is HTTP/1.1, whose request target has no authority.
        let path = parts.uri.path().to_owned();
        let mut query = Query::parse(parts.uri.query().unwrap_or_default());
        parts.version = http::Version::HTTP_11;
        parts.headers.insert("host", "localhost".parse().unwrap());
        parts.headers.remove("accept-encoding");
        let is_list = parts.method == Method::GET && path.ends_with("/configmaps");
        let answer = match (is_list, query.has("watch")) {
            (true, true) => {
                self.fault
                    .spoil_watch(&mut query, self.current(&parts, &path).await);
                return self.watch(parts, &path, query).await;
            }
            (true, false) => return self.list(parts, &path, query).await,
            _ => {
                let body = self.spoil_write(&parts.method, body);
                parts.headers.remove("content-length");
                self.send(&parts, &path, &query, body).await
            }
        };
        whole(
            answer.status(),
            answer.into_body().collect().await.unwrap().to_bytes(),
        )
    }

    async fn send(
        &self,
        parts: &http::request::Parts,
        path: &str,
        query: &Query,
        body: Bytes,
    ) -> Response<Incoming> {
        let pipe = self.server.connect().await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(pipe))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.headers_mut() = parts.headers.clone();
        *request.uri_mut() = format!("{path}?{query}").parse().unwrap();
        sender.send_request(request).await.unwrap()
    }

    async fn read(&self, parts: &http::request::Parts, path: &str, query: &Query) -> (StatusCode, Value) {
        let answer = self.send(parts, path, query, Bytes::new()).await;
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// The current version.
    async fn current(&self, parts: &http::request::Parts, path: &str) -> String {
        let (_, list) = self.read(parts, path, &Query::parse("limit=1")).await;
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    async fn list(&self, parts: http::request::Parts, path: &str, mut query: Query) -> Response<Body> {
        let asked = query.clone();
        self.fault.spoil_list(&mut query);
        let (status, mut list) = self.read(&parts, path, &query).await;
        let first = {
            let mut memory = self.memory.lock().unwrap();
            memory.list.get_or_insert_with(|| list.clone()).clone()
        };
        self.fault.spoil_listed(&asked, &mut list, &first);
        let status = match list["kind"] == "Status" {
            true => status,
            false => StatusCode::OK,
        };
        whole(status, list.to_string().into())
    }

    fn spoil_write(&self, method: &Method, body: Bytes) -> Bytes {
        if self.fault != Fault::TouchesWhatItWrites || *method != Method::PUT {
            return body;
        }
        let mut memory = self.memory.lock().unwrap();
        memory.writes += 1;
        let mut object: Value = serde_json::from_slice(&body).unwrap();
        object["metadata"]["annotations"]["writes"] = memory.writes.to_string().into();
        object.to_string().into()
    }

    async fn watch(self: Arc<Self>, parts: http::request::Parts, path: &str, query: Query) -> Response<Body> {
        let answer = self.send(&parts, path, &query, Bytes::new()).await;
        let status = answer.status();
        let (sender, receiver) = mpsc::channel::<Bytes>(16);
        let mut events = Events::new(self.fault, query.clone());
        let path = path.to_owned();
        tokio::spawn(async move {
            let mut lines = Lines::new(answer.into_body());
            loop {
                let line = match timeout(LONGEST_HOLD, lines.next()).await {
                    Ok(Some(line)) => line,
                    idle_or_ended => {
                        let held = events.release().map(|held| format!("{held}\n").into());
                        if let Some(held) = held {
                            let _ = sender.send(held).await;
                        }
                        match idle_or_ended {
                            Err(_) => continue,
                            Ok(_) => return,
                        }
                    }
                };
                let event: Value = serde_json::from_slice(&line).unwrap();
                if self.fault == Fault::FreshStreamForGone && event["object"]["code"] == 410 {
                    let mut fresh = query.clone();
                    fresh.remove("resourceVersion");
                    lines = Lines::new(self.send(&parts, &path, &fresh, Bytes::new()).await.into_body());
                    continue;
                }
                let count = self.count(&event);
                let Some(spoilt) = events.spoil(event, count) else {
                    return;
                };
                for event in spoilt {
                    if sender.send(format!("{event}\n").into()).await.is_err() {
                        return;
                    }
                }
            }
        });
        let frames = stream::unfold(receiver, |mut receiver| async move {
            let bytes = receiver.recv().await?;
            Some((Ok(Frame::data(bytes)), receiver))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed());
        *response.status_mut() = status;
        let json = "application/json".parse().unwrap();
        response.headers_mut().insert("content-type", json);
        response
    }

    /// The number of changes on all streams.
    fn count(&self, event: &Value) -> usize {
        let mut memory = self.memory.lock().unwrap();
        memory.events += usize::from(event["type"] != "BOOKMARK");
        memory.events
    }
}

/// The lines of a watch.
struct Lines {
    body: Incoming,
    buffer: BytesMut,
}

impl Lines {
    fn new(body: Incoming) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
        }
    }

    async fn next(&mut self) -> Option<BytesMut> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(self.buffer.split_to(end + 1));
            }
            let frame = self.body.frame().await?.ok()?;
            self.buffer
                .extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }
}

fn whole(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body).boxed());
    *response.status_mut() = status;
    let json = "application/json".parse().unwrap();
    response.headers_mut().insert("content-type", json);
    response
}
