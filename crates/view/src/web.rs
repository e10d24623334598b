//! The web page: one page on loopback, live by server-sent events.
//!
//! ```text
//! browser ▶ Host, Origin ▶ session cookie ▶ route ┬▶ assets (embedded)
//!                                                  ├▶ /api/… JSON views of the board and of Tables
//!                                                  └▶ /api/stream server-sent events, as fast as the browser reads
//! ```
//!
//! The cluster's credentials never leave this process: the browser has a session cookie and nothing else. A session begins
//! with a link that works once. Requests that name another host, as after DNS rebinding, or come from another origin are
//! refused. Nothing can be written through the page.

mod answer;
mod entries;
mod guard;
mod stream;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::{Method, Request, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use watchkeeper_client::Client;
use watchkeeper_meta::ObjectKey;

use self::answer::{Answer, asset, json_answer, page_answer, text_answer};
use self::guard::Guard;
use crate::board::{KindBoard, StreamState, readable};
use crate::feed::{Live, now};
use crate::table::{Row, Table, Tables};
use crate::tree;

/// Connections at a time. A browser opens six, and one stream per tab.
const MAX_CONNECTIONS: usize = 64;

/// The most rows one answer has. The page shows a window of a long table.
const MAX_ROWS: usize = 500;

/// A page that can be opened.
#[derive(Debug)]
pub struct Page {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    live: Arc<Live>,
    tables: Tables,
    guard: Guard,
    title: String,
}

impl Page {
    /// Binds a port on loopback; 0 takes a free one. `title` says which cluster this is.
    pub async fn bind(client: Client, live: Arc<Live>, port: u16, title: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let guard = Guard::new(listener.local_addr()?.port())?;
        Ok(Self {
            listener,
            shared: Arc::new(Shared {
                live,
                tables: Tables::new(client),
                guard,
                title: title.to_owned(),
            }),
        })
    }

    /// A link that opens the page in one browser, once.
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
                // Out of file descriptors, say: the next attempt waits for its turn.
                tokio::task::yield_now().await;
                continue;
            };
            let shared = self.shared.clone();
            connections.spawn(async move {
                let service = hyper::service::service_fn(move |request| {
                    let answer = shared.clone().answer(&request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                // A browser that goes away is no error.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
                drop(place);
            });
        }
    }
}

impl Shared {
    fn answer(self: Arc<Self>, request: &Request<Incoming>) -> Answer {
        if let Err(refusal) = self.guard.check_origin(request.headers()) {
            return text_answer(StatusCode::FORBIDDEN, refusal);
        }
        if request.method() != Method::GET {
            return text_answer(StatusCode::METHOD_NOT_ALLOWED, "this page is read-only");
        }
        let path = request.uri().path();
        if let Some(link) = path.strip_prefix("/open/") {
            return self.open(link);
        }
        if !self.guard.has_session(request.headers()) {
            let text = "Open the link that watchkeeper has printed. It works once; start watchkeeper ui again for another.";
            return text_answer(StatusCode::UNAUTHORIZED, text);
        }
        let query = Query::read(request.uri().query().unwrap_or_default());
        match path {
            "/" => page_answer(&self.title),
            "/api/stream" => stream::events(self.live.clone(), query.number("after")),
            "/api/table" => self.table(&query),
            "/api/object" => self.object(&query),
            "/api/tree" => {
                let namespace = query.text("namespace").filter(|name| !name.is_empty());
                json_answer(&self.live.read(|board| tree::owners(board, namespace)))
            }
            path => {
                asset(path).unwrap_or_else(|| text_answer(StatusCode::NOT_FOUND, "there is no such page"))
            }
        }
    }

    /// Trades a link for a session.
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
                "this link was used already, or is not one of ours",
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
            let object = board.kind(stream).and_then(|kind| kind.object(&key)).cloned();
            (object, board.history(stream, &key))
        });
        if object.is_none() && history.is_empty() {
            return text_answer(
                StatusCode::NOT_FOUND,
                "there is no such object, and nothing is known of one",
            );
        }
        let state = object.as_ref().map(readable);
        let yaml = state.as_ref().map(watchkeeper_wire::yaml::to_string);
        let history: Vec<Value> = history.iter().map(|entry| entries::json(entry)).collect();
        json_answer(&json!({ "yaml": yaml, "history": history }))
    }
}

/// The rows a browser shows.
#[derive(Serialize)]
struct Window<'a> {
    columns: Option<&'a [crate::table::Column]>,
    rows: Vec<Value>,
    /// How many rows match, shown or not.
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
    // The server's ages are of the moment it sent the row; the page counts on from the time of creation.
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

/// A kind as the page lists it.
pub(crate) fn kind_json(kind: &KindBoard) -> Value {
    let (state, reason) = match &kind.state {
        StreamState::Syncing => ("syncing", None),
        StreamState::Live => ("live", None),
        StreamState::Failing { reason } => ("failing", Some(reason)),
    };
    json!({
        "name": &*kind.name,
        "kind": kind.resource.kind,
        "group": kind.resource.group,
        "count": kind.objects().len(),
        "events": kind.events(),
        "rate": kind.rate(now()),
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

    /// A number; 0 if it is not given or is none.
    fn number(&self, name: &str) -> u64 {
        self.text(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }
}
