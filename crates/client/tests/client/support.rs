//! A scripted server: each request gets the next answer of a list, and is recorded.
//!
//! It speaks HTTP/1.1 and HTTP/2 over any byte stream, in-process or with real TLS. It can misbehave in ways a real
//! server would not on request: break off at a byte, answer HTML, redirect.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use watchkeeper_client::{Client, ClientOptions, InProcess};

/// The server's reaction to one request.
pub(crate) enum Answer {
    /// A whole response.
    Whole(u16, Vec<(&'static str, String)>, Bytes),
    /// A response whose body is written by the test, chunk by chunk; an `Err` breaks the stream.
    Streamed(
        Vec<(&'static str, String)>,
        mpsc::UnboundedReceiver<Result<Bytes, Broken>>,
    ),
    /// The connection is cut before any answer.
    Cut,
}

/// A stream that breaks.
#[derive(Debug, thiserror::Error)]
#[error("broken by the test")]
pub(crate) struct Broken;

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) version: http::Version,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

/// The script and the recorded requests, shared by all connections.
#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    seen: Vec<Seen>,
    connections: usize,
}

pub(crate) fn json(status: u16, value: serde_json::Value) -> Answer {
    Answer::Whole(
        status,
        vec![("content-type", "application/json".to_owned())],
        value.to_string().into(),
    )
}

pub(crate) fn answer(status: u16, headers: &[(&'static str, &str)], body: impl Into<Bytes>) -> Answer {
    let headers = headers
        .iter()
        .map(|&(name, value)| (name, value.to_owned()))
        .collect();
    Answer::Whole(status, headers, body.into())
}

/// A streamed JSON answer, and the sender the test writes to.
pub(crate) fn streamed(content_type: &str) -> (Answer, mpsc::UnboundedSender<Result<Bytes, Broken>>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (
        Answer::Streamed(vec![("content-type", content_type.to_owned())], receiver),
        sender,
    )
}

impl Server {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let server = Self::default();
        server.0.lock().unwrap().answers.extend(answers);
        server
    }

    pub(crate) fn push(&self, answer: Answer) {
        self.0.lock().unwrap().answers.push_back(answer);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().seen.clone()
    }

    /// `GET /path` for each request.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen()
            .iter()
            .map(|seen| format!("{} {}", seen.method, seen.uri))
            .collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.0.lock().unwrap().connections
    }

    /// A client in the same process.
    pub(crate) fn client(&self, options: ClientOptions) -> Client {
        Client::in_process(self.connector(), options)
    }

    pub(crate) fn connector(&self) -> InProcess {
        let server = self.clone();
        InProcess::new(move || {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            tokio::spawn(server.clone().serve(theirs));
            std::future::ready(Ok(ours))
        })
    }

    /// Serves one connection to its end.
    pub(crate) async fn serve(self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        self.0.lock().unwrap().connections += 1;
        let service = service_fn(|request| self.clone().respond(request));
        // Cut connections end in an error, as the test intends.
        let _ = auto::Builder::new(TokioExecutor::new())
            .serve_connection_with_upgrades(TokioIo::new(io), service)
            .await;
    }

    /// Like [`Server::serve`], for HTTP/2 with this many streams per connection.
    pub(crate) async fn serve_with_streams(
        self,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        streams: u32,
    ) {
        self.0.lock().unwrap().connections += 1;
        let service = service_fn(|request| self.clone().respond(request));
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(streams)
            .serve_connection(TokioIo::new(io), service)
            .await;
    }

    async fn respond(self, request: Request<Incoming>) -> Result<Response<Outgoing>, Broken> {
        let (head, body) = request.into_parts();
        let seen = Seen {
            method: head.method.to_string(),
            uri: head.uri.path_and_query().unwrap().to_string(),
            version: head.version,
            headers: head.headers,
            body: body.collect().await.map_err(|_| Broken)?.to_bytes(),
        };
        let answer = {
            let mut state = self.0.lock().unwrap();
            state.seen.push(seen);
            state.answers.pop_front()
        };
        let (status, headers, body) = match answer {
            Some(Answer::Whole(status, headers, body)) => (status, headers, Outgoing::Whole(Some(body))),
            Some(Answer::Streamed(headers, receiver)) => (200, headers, Outgoing::Streamed(receiver)),
            Some(Answer::Cut) => return Err(Broken),
            None => (
                599,
                Vec::new(),
                Outgoing::Whole(Some("the script is over".into())),
            ),
        };
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Ok(response.body(body).unwrap())
    }
}

pub(crate) enum Outgoing {
    Whole(Option<Bytes>),
    Streamed(mpsc::UnboundedReceiver<Result<Bytes, Broken>>),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Streamed(receiver) => receiver
                .poll_recv(cx)
                .map(|next| next.map(|chunk| chunk.map(Frame::data))),
        }
    }
}

/// Options without a rate limit, for tests of other features. All requests share connections, as if the server were
/// remote.
pub(crate) fn unlimited() -> ClientOptions {
    ClientOptions {
        rate_limit: None,
        loopback_http1: false,
        user_agent: "test/1.0".to_owned(),
        ..Default::default()
    }
}
