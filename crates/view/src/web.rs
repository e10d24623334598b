//! The web page: one page on loopback, updated by server-sent events.
//!
//! ```text
//! browser ▶ Host, Origin ▶ session cookie ▶ route ┬▶ assets (embedded)
//!                                                  ├▶ /api/… JSON views of the board and of Tables
//!                                                  ├▶ /api/stream server-sent events, as fast as the browser reads
//!                                                  ├▶ /api/go     another moment of a recording
//!                                                  └▶ /api/write  one change of the cluster, if that is allowed
//! ```
//! The cluster's credentials never leave this process: the browser only has a session cookie. A session starts with a
//! one-time link. Requests for another host (DNS rebinding) or from another origin are refused. Requests that change
//! something must be JSON from our own origin, and writes to the cluster are refused unless
//! [`PageOptions::allow_writes`] is set.

mod answer;
mod entries;
mod guard;
mod stream;
mod writes;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use watchkeeper_client::Client;
use watchkeeper_meta::ObjectKey;

use self::answer::{Answer, asset, json_answer, page_answer, text_answer};
use self::guard::Guard;
use self::writes::{Write, WriteError};
use crate::board::{KindBoard, StreamState, readable};
use crate::feed::{Live, now};
use crate::recorded::RecordedView;
use crate::table::{Row, Table, Tables};
use crate::tree;

/// The largest number of connections. A browser opens six, and one stream per tab.
const MAX_CONNECTIONS: usize = 64;

/// The pause after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The largest number of rows in an answer. The page shows a window of a long table.
const MAX_ROWS: usize = 500;

/// The largest request body: an object may have 3 MiB, and an edit has two of them.
const MAX_BODY: usize = 8 << 20;

/// The options of a page.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// The port on loopback; 0 for a free one.
    pub port: u16,
    /// The name of the cluster.
    pub title: String,
    /// Allows deleting, scaling and editing objects on the page, with the permissions of the client.
    pub allow_writes: bool,
}

impl PageOptions {
    /// On a free port, and read-only.
    pub fn titled(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }
}

/// The subject of a page.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A live cluster.
    Live(Arc<Live>),
    /// A recording, which the client's server replays.
    Recorded(Arc<RecordedView>),
}

/// A page.
#[derive(Debug)]
pub struct Page {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    live: Arc<Live>,
    recorded: Option<Arc<RecordedView>>,
    tables: Tables,
    guard: Guard,
    options: PageOptions,
}

impl Page {
    /// Binds the port. The client loads Tables.
    pub async fn bind(client: Client, subject: Subject, options: PageOptions) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, options.port))).await?;
        let guard = Guard::new(listener.local_addr()?.port())?;
        let (live, recorded) = match subject {
            Subject::Live(live) => (live, None),
            Subject::Recorded(recorded) => (recorded.live().clone(), Some(recorded)),
        };
        let tables = Tables::new(client.clone(), live.selection().clone());
        if let Some(recorded) = &recorded {
            tables.pin(recorded.revision());
        }
        let shared = Shared {
            client,
            live,
            recorded,
            tables,
            guard,
            options,
        };
        Ok(Self {
            listener,
            shared: Arc::new(shared),
        })
    }

    /// A one-time login link.
    pub fn link(&self) -> std::io::Result<String> {
        self.shared.guard.new_link()
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = tokio::task::JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            // The semaphore is never closed.
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let Ok((socket, _)) = self.listener.accept().await else {
                // For example out of file descriptors.
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let shared = self.shared.clone();
            connections.spawn(async move {
                let service = hyper::service::service_fn(move |request| {
                    let answer = shared.clone().answer(request);
                    async move { Ok::<_, Infallible>(answer.await) }
                });
                // A browser that disconnects is not an error.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
                drop(place);
            });
        }
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        if let Err(refusal) = self.guard.check_origin(request.headers()) {
            return text_answer(StatusCode::FORBIDDEN, refusal);
        }
        let path = request.uri().path();
        if let Some(link) = path.strip_prefix("/open/") {
            return self.open(link);
        }
        if !self.guard.has_session(request.headers()) {
            let text = "Open the link that watchkeeper printed. Each link works once; `watchkeeper ui` prints a new one.";
            return text_answer(StatusCode::UNAUTHORIZED, text);
        }
        match *request.method() {
            Method::GET => self.read(path, request.uri().query().unwrap_or_default()),
            Method::POST => self.change(request).await,
            _ => text_answer(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are supported"),
        }
    }

    fn read(self: &Arc<Self>, path: &str, query: &str) -> Answer {
        let query = Query::read(query);
        match path {
            "/" => page_answer(&self.options.title, self.options.allow_writes),
            "/api/stream" => stream::events(self.clone(), query.number("after")),
            "/api/table" => self.table(&query),
            "/api/object" => self.object(&query),
            "/api/tree" => {
                let namespace = query.text("namespace").filter(|name| !name.is_empty());
                json_answer(&self.live.read(|board| tree::owners(board, namespace)))
            }
            path => asset(path).unwrap_or_else(|| text_answer(StatusCode::NOT_FOUND, "not found")),
        }
    }

    /// Handles requests that change the current moment or the cluster.
    async fn change(&self, request: Request<Incoming>) -> Answer {
        if let Err(refusal) = self.guard.check_write(request.headers()) {
            return text_answer(StatusCode::FORBIDDEN, refusal);
        }
        let path = request.uri().path().to_owned();
        let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
        let Ok(body) = body.map(http_body_util::Collected::to_bytes) else {
            return text_answer(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is too large or incomplete",
            );
        };
        match path.as_str() {
            "/api/go" => self.go(&body).await,
            "/api/write" if !self.options.allow_writes => text_answer(
                StatusCode::FORBIDDEN,
                "this page is read-only: start watchkeeper ui with --allow-writes",
            ),
            "/api/write" => self.write(&body).await,
            _ => text_answer(StatusCode::NOT_FOUND, "not found"),
        }
    }

    /// Goes to another moment of a recording.
    async fn go(&self, body: &[u8]) -> Answer {
        let (Some(recorded), Ok(go)) = (self.recorded.clone(), serde_json::from_slice::<Go>(body)) else {
            return text_answer(StatusCode::BAD_REQUEST, "not a time or step of a recording");
        };
        let going = recorded.clone();
        let gone = tokio::task::spawn_blocking(move || match go {
            Go::At(millis) => going.go(Timestamp::from_millisecond(millis).unwrap_or_default()),
            Go::Step(by) => going.step(by),
        });
        match gone.await {
            Ok(Ok(())) => {
                self.tables.pin(recorded.revision());
                json_answer(&recorded.span())
            }
            Ok(Err(error)) => text_answer(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            Err(error) => text_answer(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    /// Changes one object of the cluster.
    async fn write(&self, body: &[u8]) -> Answer {
        let write: Write = match serde_json::from_slice(body) {
            Ok(write) => write,
            Err(error) => return text_answer(StatusCode::BAD_REQUEST, error.to_string()),
        };
        let resource = self
            .live
            .read(|board| board.kind(&write.kind).map(|kind| kind.resource.clone()));
        let Some(resource) = resource else {
            return text_answer(StatusCode::NOT_FOUND, "this kind is not being watched");
        };
        let api = self.client.dynamic(resource).namespace(&write.namespace);
        match write.send(&api).await {
            Ok(()) => json_answer(&json!({})),
            Err(WriteError::Refused(reason)) => text_answer(StatusCode::BAD_REQUEST, reason),
            Err(error) => {
                let status = match &error {
                    WriteError::Cluster(error) => error.status().map(|status| status.code),
                    WriteError::Refused(_) => None,
                };
                let status = status.and_then(|code| StatusCode::from_u16(code.try_into().ok()?).ok());
                text_answer(status.unwrap_or(StatusCode::BAD_GATEWAY), error.to_string())
            }
        }
    }

    /// The current time, or the current moment of a recording.
    fn now(&self) -> Timestamp {
        match &self.recorded {
            Some(recorded) => Timestamp::from_millisecond(recorded.span().at).unwrap_or_default(),
            None => now(),
        }
    }

    /// Exchanges a link for a session.
    fn open(&self, link: &str) -> Answer {
        match self.guard.begin_session(link) {
            Some(cookie) => {
                let mut answer = text_answer(StatusCode::SEE_OTHER, "");
                let headers = answer.headers_mut();
                headers.insert(header::LOCATION, http::HeaderValue::from_static("/"));
                headers.insert(header::SET_COOKIE, cookie);
                answer
            }
            None => text_answer(
                StatusCode::FORBIDDEN,
                "this link is invalid or was used before; `watchkeeper ui` prints a new one",
            ),
        }
    }

    fn table(&self, query: &Query) -> Answer {
        let name = query.text("kind").unwrap_or_default();
        let resource = self
            .live
            .read(|board| board.kind(name).map(|kind| kind.resource.clone()));
        match resource {
            Some(resource) => self
                .tables
                .read(&resource, |table| json_answer(&window(table, query))),
            None => text_answer(StatusCode::NOT_FOUND, "this kind is not being watched"),
        }
    }

    fn object(&self, query: &Query) -> Answer {
        let key = ObjectKey::new(
            query.text("namespace").unwrap_or_default(),
            query.text("name").unwrap_or_default(),
        );
        let stream = query.text("kind").unwrap_or_default();
        let (object, history) = self.live.read(|board| {
            let object = board.kind(stream).and_then(|kind| kind.object(&key));
            (object, board.history(stream, &key))
        });
        if object.is_none() && history.is_empty() {
            return text_answer(
                StatusCode::NOT_FOUND,
                "there is no such object, and no recent change of one",
            );
        }
        let state = object.as_ref().map(readable);
        let yaml = state.as_ref().map(watchkeeper_wire::yaml::to_string);
        let history: Vec<Value> = history.iter().map(|entry| entries::json(entry)).collect();
        let replicas = state.as_ref().map(|state| &state["spec"]["replicas"]);
        let uid = object.as_ref().map(|object| object.uid());
        json_answer(&json!({ "yaml": yaml, "history": history, "replicas": replicas, "uid": uid }))
    }
}

/// A move in a recording.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Go {
    /// To this time, in milliseconds since 1970.
    At(i64),
    /// That many changes forward; back if negative.
    Step(i64),
}

/// The rows of an answer.
#[derive(Serialize)]
struct Window<'a> {
    columns: Option<&'a [crate::table::Column]>,
    rows: Vec<Value>,
    /// The number of all matching rows.
    total: usize,
    synced: bool,
    failure: Option<&'a str>,
    revision: u64,
}

fn window<'a>(table: &'a Table, query: &Query) -> Window<'a> {
    let (offset, limit) = (query.number("offset") as usize, query.number("limit") as usize);
    let namespace = query.text("namespace").filter(|name| !name.is_empty());
    let filter = query.text("filter").unwrap_or_default().to_lowercase();
    let matches =
        |row: &&Row| namespace.is_none_or(|wanted| row.key.namespace() == wanted) && row.contains(&filter);
    let matching: Vec<&Row> = table.rows.values().filter(matches).collect();
    let shown = matching.iter().skip(offset).take(limit.min(MAX_ROWS));
    Window {
        columns: table.columns.as_deref(),
        rows: shown.map(|row| row_json(row, table)).collect(),
        total: matching.len(),
        synced: table.synced,
        failure: table.failure.as_deref(),
        revision: table.revision,
    }
}

fn row_json(row: &Row, table: &Table) -> Value {
    let created = row.created.map(|at| at.as_millisecond());
    // The server's ages are of the time it sent the row; the page computes them from the creation time.
    let age = table.columns.iter().flat_map(|columns| columns.iter());
    let age = age
        .enumerate()
        .find(|(_, column)| column.name == "Age")
        .map(|(index, _)| index);
    json!({
        "namespace": row.key.namespace(),
        "name": row.key.name(),
        "cells": row.cells,
        "created": created,
        "age": age,
    })
}

/// A kind in the page's JSON.
pub(crate) fn kind_json(kind: &KindBoard, now: Timestamp) -> Value {
    let (state, reason) = match &kind.state {
        StreamState::Syncing => ("syncing", None),
        StreamState::Live => ("live", None),
        StreamState::Failing { reason } => ("failing", Some(reason)),
    };
    json!({
        "name": &*kind.name,
        "kind": kind.resource.kind,
        "group": kind.resource.group,
        "count": kind.count(),
        "events": kind.events(),
        "rate": kind.rate(now),
        "state": state,
        "reason": reason,
    })
}

/// The parameters of a request.
struct Query(Vec<(String, String)>);

impl Query {
    fn read(query: &str) -> Self {
        let decode = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (decode(name), decode(value))).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A number; 0 if missing or invalid.
    fn number(&self, name: &str) -> u64 {
        self.text(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }
}
