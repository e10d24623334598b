//! Requests: one connection, and many at work.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Failure;
use crate::address::Address;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A watch of all config maps from now on.
pub(crate) const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0\
    &sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

/// One authenticated connection.
#[derive(Clone)]
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    address: String,
    authorization: Option<String>,
}

impl Client {
    pub(crate) async fn connect(server: &Address) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(server.name.clone())?;
        let stream = server.tls.connect(name, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(64 << 20)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(connection);
        Ok(Self {
            sender,
            address: server.address.to_string(),
            authorization: server.token.as_ref().map(|token| format!("Bearer {token}")),
        })
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        accept: &str,
        body: String,
    ) -> Result<http::Response<Incoming>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header("accept", accept);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Reads a whole response and returns its size.
    pub(crate) async fn get(&mut self, path: &str, accept: &str) -> Result<usize, Failure> {
        let answer = self.send(Method::GET, path, accept, String::new()).await?;
        if answer.status() != StatusCode::OK {
            return Err(format!("{path}: {}", answer.status()).into());
        }
        read(answer).await
    }

    /// The number of times a word is in a response.
    pub(crate) async fn occurrences(
        &mut self,
        path: &str,
        accept: &str,
        word: &str,
    ) -> Result<usize, Failure> {
        let answer = self.send(Method::GET, path, accept, String::new()).await?;
        let mut body = answer.into_body();
        let (mut count, mut rest) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            rest.extend_from_slice(frame?.data_ref().map_or(&[][..], |data| data));
            count += memchr::memmem::find_iter(&rest, word).count();
            // A word may continue in the next frame; what is kept is too short to be counted again.
            rest.drain(..rest.len().saturating_sub(word.len() - 1));
        }
        Ok(count)
    }

    /// The time until a new watch of pods has delivered so many and the end of the existing ones.
    pub(crate) async fn first_events(&mut self, count: usize) -> Result<Duration, Failure> {
        let path = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let began = Instant::now();
        let answer = self.send(Method::GET, path, JSON, String::new()).await?;
        let mut body = answer.into_body();
        let mut lines = 0;
        while lines <= count {
            let frame = body.frame().await.ok_or("the watch has ended")??;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            lines += data.iter().filter(|byte| **byte == b'\n').count();
        }
        Ok(began.elapsed())
    }

    pub(crate) async fn create(&mut self, path: &str, body: String) -> Result<(), Failure> {
        let answer = self.send(Method::POST, path, PROTOBUF, body).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        match status {
            StatusCode::CREATED => Ok(()),
            _ => Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into()),
        }
    }
}

/// Reads a whole response and returns its size.
pub(crate) async fn read(answer: http::Response<Incoming>) -> Result<usize, Failure> {
    let mut body = answer.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(bytes)
}

/// Creates objects with several writers; returns the time of each create, and of all.
pub(crate) async fn create_all(
    server: &Address,
    writers: usize,
    path: &'static str,
    range: std::ops::Range<usize>,
    body: fn(usize) -> String,
) -> Result<(Vec<Duration>, Duration), Failure> {
    let mut clients = Vec::new();
    for _ in 0..writers {
        clients.push(Client::connect(server).await?);
    }
    let began = Instant::now();
    let mut working = JoinSet::new();
    for (writer, mut client) in clients.into_iter().enumerate() {
        let range = range.clone();
        working.spawn(async move {
            let mut times = Vec::new();
            for index in range.skip(writer).step_by(writers) {
                let began = Instant::now();
                client.create(path, body(index)).await?;
                times.push(began.elapsed());
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = working.join_next().await {
        times.extend(done??);
    }
    Ok((times, began.elapsed()))
}

/// The times of events, by the text they contain.
pub(crate) type Seen = mpsc::UnboundedReceiver<(String, Instant)>;

/// Opens a watch of config maps that tells the names and times of all events.
pub(crate) async fn watch_names(server: &Address) -> Result<Seen, Failure> {
    let (seen, all_seen) = mpsc::unbounded_channel();
    let mut client = Client::connect(server).await?;
    let answer = client.send(Method::GET, WATCH, JSON, String::new()).await?;
    tokio::spawn(async move {
        let (mut body, mut rest) = (answer.into_body(), Vec::new());
        while let Some(Ok(frame)) = body.frame().await {
            let now = Instant::now();
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = memchr::memchr(b'\n', &rest) {
                let event: Vec<u8> = rest.drain(..=end).collect();
                let name = name_of(&event).unwrap_or_default();
                let _ = seen.send((name, now));
            }
        }
    });
    Ok(all_seen)
}

fn name_of(event: &[u8]) -> Option<String> {
    let event: serde_json::Value = serde_json::from_slice(event).ok()?;
    Some(event.pointer("/object/metadata/name")?.as_str()?.to_owned())
}

pub(crate) fn namespace(index: usize) -> String {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{index:06}")}})
        .to_string()
}

pub(crate) fn config_map(index: usize) -> String {
    let metadata = json!({"name": format!("settings-{index:06}")});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colour": "blue"}})
        .to_string()
}

/// A realistic pod: two containers with ports, environment, probes and volumes, and an owner.
pub(crate) fn pod(index: usize) -> String {
    let container = |number: usize| {
        let variables = (0..5).map(|n| json!({"name": format!("VAR_{n}"), "value": format!("value-{n}")}));
        json!({
            "name": format!("c{number}"), "image": "registry.example.com/team/app:1.2.3",
            "ports": [{"name": "http", "containerPort": 8080 + number}],
            "env": variables.collect::<Vec<_>>(),
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
        })
    };
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{}-5d4f8c7b9", index % 50),
        "uid": "0a1b2c3d-5eed-4e1c-98bf-000000000001", "controller": true, "blockOwnerDeletion": true,
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("app-{}-5d4f8c7b9-{index:06}", index % 50),
            "labels": {"app": format!("app-{}", index % 50), "tier": "web", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"example.com/checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": format!("node-{}", index % 300),
            "containers": [container(0), container(1)],
            "volumes": [{"name": "config", "configMap": {"name": "app-config"}}],
        },
    })
    .to_string()
}
