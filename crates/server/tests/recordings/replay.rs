//! Sends the requests of a case to its server and records the answers.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use watchkeeper_server::{Handle, Server, Token, Tokens};
use watchkeeper_storage::Revision;

use crate::case::{Answer, Case, Request, Step, Stream, is_periodic_bookmark};
use crate::template::{Seen, fill, fill_path};

/// A stream that is quiet for this long is complete.
const QUIET: Duration = Duration::from_millis(350);

/// The time limit of a stream.
const STREAM_LIMIT: Duration = Duration::from_secs(15);

/// The compared headers.
const KEPT_HEADERS: [&str; 11] = [
    "Content-Type",
    "Warning",
    "Retry-After",
    "Location",
    "Allow",
    "WWW-Authenticate",
    "Content-Encoding",
    "Cache-Control",
    "Vary",
    "X-Content-Type-Options",
    "Sec-WebSocket-Protocol",
];

/// The headers whose presence is compared.
const PRESENT_HEADERS: [&str; 3] = ["Audit-Id", "ETag", "Last-Modified"];

/// The answers of a replay.
#[derive(Default)]
pub(crate) struct Replayed {
    pub setup: HashMap<String, Answer>,
    pub steps: HashMap<String, Answer>,
    pub streams: HashMap<String, SeenStream>,
}

pub(crate) struct SeenStream {
    pub response: Answer,
    pub frames: Vec<Value>,
    pub ended: &'static str,
}

pub(crate) async fn replay(case: &Case) -> Replayed {
    let mut tokens = Tokens::default();
    tokens
        .add_csv("alice-token,alice,alice-uid,dev\nbob-token,bob,bob-uid\n")
        .expect("tokens");
    let server = Server::builder()
        .allow_privileged(false)
        .tokens(tokens)
        .admin_token(Token::new("admin-token"))
        .start()
        .await
        .expect("a server");
    let mut player = Player {
        server,
        sender: None,
        seen: Seen::new(),
        open: Vec::new(),
        out: Replayed::default(),
    };
    for step in &case.setup {
        let answer = player.step(step).await;
        player.out.setup.insert(step.id.clone(), answer);
    }
    for step in &case.steps {
        player
            .close_streams(|stream| stream.closed_before_step.as_ref() == Some(&step.id))
            .await;
        player.open_streams(case, &step.id).await;
        let answer = player.step(step).await;
        player.out.steps.insert(step.id.clone(), answer);
    }
    player.open_streams(case, "end").await;
    player.close_streams(|_| true).await;
    let Player {
        server, out, sender, ..
    } = player;
    drop(sender);
    server.shutdown().await;
    out
}

/// The answer to an administrator's GET.
pub(crate) async fn fetch(server: &Handle, path: &str) -> Value {
    let pipe = server.connector().connect().await.expect("a connection");
    let (mut sender, connection) = http1::handshake(TokioIo::new(pipe)).await.expect("a handshake");
    tokio::spawn(connection);
    let request = http::Request::get(path)
        .header("host", "localhost")
        .header(
            "authorization",
            format!("Bearer {}", server.admin_token().reveal()),
        )
        .body(Full::<Bytes>::default())
        .expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

type Sender = SendRequest<Full<Bytes>>;

struct Player<'c> {
    server: Handle,
    sender: Option<Sender>,
    seen: Seen,
    open: Vec<(&'c Stream, OpenStream)>,
    out: Replayed,
}

impl<'c> Player<'c> {
    async fn connect(&self) -> Sender {
        let pipe = self.server.connector().connect().await.expect("a connection");
        let (sender, connection) = http1::handshake(TokioIo::new(pipe)).await.expect("a handshake");
        tokio::spawn(connection.with_upgrades());
        sender
    }

    async fn send(&mut self, request: &Request) -> http::Response<Incoming> {
        let wire = wire_request(request);
        let mut sender = match self.sender.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => self.connect().await,
        };
        sender.ready().await.expect("a connection");
        let answer = sender.send_request(wire).await.expect("an answer");
        self.sender = Some(sender);
        answer
    }

    async fn step(&mut self, step: &Step) -> Answer {
        sleep(Duration::from_secs_f64(step.wait)).await;
        if let Some(external) = &step.external {
            self.compact(&fill(external, &self.seen)).await;
            return Answer::default();
        }
        let request = self.filled(step.request.as_ref().expect("a request"), &step.template);
        let limit =
            Instant::now() + Duration::from_secs_f64(step.poll.as_ref().map_or(0.0, |poll| poll.timeout));
        loop {
            let answer = self.send(&request).await;
            let (head, body) = answer.into_parts();
            let bytes = body
                .collect()
                .await
                .map(|body| body.to_bytes())
                .unwrap_or_default();
            let headers = kept_headers(&head.headers);
            let bytes = unzipped(&headers, bytes);
            let body = decoded(&bytes, &headers);
            let fits = step.poll.as_ref().is_none_or(|poll| {
                let status = poll.status.is_none_or(|status| status == head.status.as_u16());
                status
                    && poll
                        .conditions
                        .iter()
                        .all(|(path, wanted)| find(body.as_ref(), path) == Some(wanted))
            });
            if !fits && Instant::now() < limit {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            self.remember(&step.id, &head.headers, body.as_ref());
            let body = match step.projection.as_str() {
                "" => body,
                "raw" => Some(json!({ "text": String::from_utf8_lossy(&bytes) })),
                projection => projected(body, projection),
            };
            return Answer {
                status: head.status.as_u16(),
                headers,
                body,
            };
        }
    }

    fn filled(&self, request: &Request, template: &crate::case::Template) -> Request {
        let mut request = request.clone();
        if let Some(path) = &template.path {
            request.path = fill_path(path, &self.seen);
        }
        if let Some(body) = &template.body {
            request.body = to_raw_value(&fill(body, &self.seen)).ok();
        }
        if let Some(headers) = &template.headers {
            let filled = headers
                .iter()
                .map(|(name, value)| (name.clone(), fill(value, &self.seen)));
            request.headers = filled.collect();
        }
        request
    }

    fn remember(&mut self, id: &str, headers: &http::HeaderMap, body: Option<&Value>) {
        self.seen.insert(id.to_owned(), body.cloned().unwrap_or_default());
        let headers: Map<String, Value> = headers
            .iter()
            .map(|(name, value)| {
                (
                    name.as_str().to_owned(),
                    value.to_str().unwrap_or_default().into(),
                )
            })
            .collect();
        self.seen.insert(format!("h.{id}"), Value::Object(headers));
    }

    async fn compact(&self, external: &Value) {
        let revision = external["revision"]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("a revision");
        let store = self.server.registry().store();
        store.compact(Revision::new(revision)).await.expect("compaction");
        sleep(Duration::from_secs_f64(
            external["settle"].as_f64().unwrap_or_default(),
        ))
        .await;
    }

    async fn open_streams(&mut self, case: &'c Case, step: &str) {
        for stream in case
            .streams
            .iter()
            .filter(|stream| stream.opened_before_step == step)
        {
            let request = self.filled(&stream.request, &stream.template);
            let mut sender = self.connect().await;
            let answer = sender
                .send_request(wire_request(&request))
                .await
                .expect("an answer");
            self.open.push((stream, OpenStream::new(sender, answer).await));
        }
    }

    async fn close_streams(&mut self, which: impl Fn(&Stream) -> bool) {
        let (closing, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(stream, _)| which(stream));
        self.open = open;
        for (stream, opened) in closing {
            let seen = opened.collect(stream.read.frames).await;
            self.seen
                .insert(stream.id.clone(), json!({ "frames": seen.frames }));
            self.out.streams.insert(stream.id.clone(), seen);
        }
    }
}

/// A stream that is read in the background.
struct OpenStream {
    response: Answer,
    state: Arc<StreamState>,
    reading: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct StreamState {
    frames: Mutex<(Vec<Value>, bool)>,
    changed: Notify,
}

impl OpenStream {
    async fn new(sender: Sender, answer: http::Response<Incoming>) -> Self {
        let mut answer = answer;
        let upgrade = hyper::upgrade::on(&mut answer);
        let (head, body) = answer.into_parts();
        let headers = kept_headers(&head.headers);
        let mut response = Answer {
            status: head.status.as_u16(),
            headers: headers.clone(),
            body: None,
        };
        let state = Arc::new(StreamState::default());
        if head.status == http::StatusCode::SWITCHING_PROTOCOLS {
            let reading = tokio::spawn(read_messages(sender, upgrade, state.clone()));
            return Self {
                response,
                state,
                reading: Some(reading),
            };
        }
        if head.status != http::StatusCode::OK {
            let bytes = body
                .collect()
                .await
                .map(|body| body.to_bytes())
                .unwrap_or_default();
            response.body = decoded(&bytes, &headers);
            state.frames.lock().expect("no panic").1 = true;
            return Self {
                response,
                state,
                reading: None,
            };
        }
        let protobuf = headers["Content-Type"]
            .as_str()
            .is_some_and(|it| it.contains("protobuf"));
        let reading = tokio::spawn(read_frames(sender, body, protobuf, state.clone()));
        Self {
            response,
            state,
            reading: Some(reading),
        }
    }

    async fn collect(self, wanted: Option<usize>) -> SeenStream {
        let limit = Instant::now() + STREAM_LIMIT;
        while !self.has(wanted) && timeout_at(limit, self.state.changed.notified()).await.is_ok() {}
        if wanted.is_some() {
            while timeout_at(Instant::now() + QUIET, self.state.changed.notified())
                .await
                .is_ok()
            {}
        }
        if let Some(reading) = self.reading {
            reading.abort();
        }
        let (frames, ended) = self.state.frames.lock().expect("no panic").clone();
        SeenStream {
            response: self.response,
            frames,
            ended: if ended {
                "closed by server"
            } else {
                "closed by client"
            },
        }
    }

    fn has(&self, wanted: Option<usize>) -> bool {
        let (frames, ended) = &*self.state.frames.lock().expect("no panic");
        let counted = frames.iter().filter(|frame| !is_periodic_bookmark(frame)).count();
        *ended || wanted.is_some_and(|wanted| counted >= wanted)
    }
}

async fn read_frames(sender: Sender, mut body: Incoming, protobuf: bool, state: Arc<StreamState>) {
    let mut buffer = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
        let mut frames = Vec::new();
        while let Some(frame) = next_frame(&mut buffer, protobuf) {
            frames.push(frame);
        }
        state.frames.lock().expect("no panic").0.append(&mut frames);
        state.changed.notify_one();
    }
    state.frames.lock().expect("no panic").1 = true;
    state.changed.notify_one();
    drop(sender);
}

/// Reads a WebSocket: a message is a frame.
async fn read_messages(sender: Sender, upgrade: OnUpgrade, state: Arc<StreamState>) {
    let upgraded = upgrade.await.expect("a WebSocket");
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await;
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = message {
            let frame = serde_json::from_str(&text).unwrap_or_else(|_| json!({ "text": text.as_str() }));
            state.frames.lock().expect("no panic").0.push(frame);
            state.changed.notify_one();
        }
    }
    state.frames.lock().expect("no panic").1 = true;
    state.changed.notify_one();
    drop(sender);
}

fn next_frame(buffer: &mut BytesMut, protobuf: bool) -> Option<Value> {
    if protobuf {
        let length = u32::from_be_bytes(buffer.get(..4)?.try_into().ok()?) as usize;
        if buffer.len() < 4 + length {
            return None;
        }
        let frame = buffer.split_to(4 + length);
        return Some(json!({ "base64": STANDARD.encode(&frame[4..]) }));
    }
    let end = buffer.iter().position(|byte| *byte == b'\n')?;
    let line = buffer.split_to(end + 1);
    let text = || json!({ "text": String::from_utf8_lossy(&line) });
    Some(serde_json::from_slice(&line).unwrap_or_else(|_| text()))
}

fn wire_request(request: &Request) -> http::Request<Full<Bytes>> {
    let mut wire = http::Request::builder()
        .method(request.method.as_str())
        .uri(request.path.as_str())
        .header("host", "localhost");
    let user = request
        .headers
        .get("user")
        .and_then(Value::as_str)
        .unwrap_or("admin");
    let token = match user {
        "anonymous" => None,
        "invalid" => Some("not-a-valid-token".to_owned()),
        user => Some(
            user.strip_prefix("bearer ")
                .map_or(format!("{user}-token"), str::to_owned),
        ),
    };
    if let Some(token) = token {
        wire = wire.header("authorization", format!("Bearer {token}"));
    }
    if !request
        .headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("user-agent"))
    {
        wire = wire.header("user-agent", "golden/1.0");
    }
    for (name, value) in request.headers.iter().filter(|(name, _)| *name != "user") {
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        for value in values {
            wire = wire.header(name, value.as_str().unwrap_or_default());
        }
    }
    if request.headers.contains_key("Upgrade") {
        wire = wire
            .header("connection", "Upgrade")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", generate_key());
    }
    let body = request.body.as_deref().map(encoded).unwrap_or_default();
    wire.body(Full::new(body.into())).expect("a request")
}

/// The bytes of a recorded body.
fn encoded(recorded: &RawValue) -> Vec<u8> {
    let body: Value = serde_json::from_str(recorded.get()).expect("a body");
    let only = body.as_object().filter(|members| members.len() == 1);
    let text = |name: &str| only.and_then(|members| members.get(name)?.as_str());
    if let Some(text) = text("text") {
        return text.as_bytes().to_vec();
    }
    if let Some(text) = text("base64") {
        return crate::protobuf::decode_base64(text);
    }
    if let Some(repeat) = only.and_then(|members| members.get("repeat")) {
        let part = |name: &str| repeat[name].as_str().unwrap_or_default().to_owned();
        let count = repeat["count"].as_u64().unwrap_or_default() as usize;
        return (part("prefix") + &part("fill").repeat(count) + &part("suffix")).into_bytes();
    }
    compact(recorded.get())
}

/// JSON without insignificant white space, with its keys in order.
pub(crate) fn compact(json: &str) -> Vec<u8> {
    let (mut quoted, mut escaped) = (false, false);
    let kept = json.bytes().filter(|byte| {
        quoted ^= *byte == b'"' && !escaped;
        escaped = quoted && *byte == b'\\' && !escaped;
        quoted || !byte.is_ascii_whitespace()
    });
    kept.collect()
}

fn kept_headers(headers: &http::HeaderMap) -> BTreeMap<String, Value> {
    let mut kept = BTreeMap::new();
    for name in KEPT_HEADERS {
        let values: Vec<Value> = headers
            .get_all(name)
            .iter()
            .map(|it| it.to_str().unwrap_or("?").into())
            .collect();
        match values.len() {
            0 => {}
            1 => drop(kept.insert(name.to_owned(), values[0].clone())),
            _ => drop(kept.insert(name.to_owned(), Value::Array(values))),
        }
    }
    for name in PRESENT_HEADERS.iter().filter(|name| headers.contains_key(**name)) {
        kept.insert((*name).to_owned(), "<present>".into());
    }
    kept
}

fn unzipped(headers: &BTreeMap<String, Value>, bytes: Bytes) -> Bytes {
    if headers
        .get("Content-Encoding")
        .is_none_or(|coding| coding != "gzip")
    {
        return bytes;
    }
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&*bytes)
        .read_to_end(&mut plain)
        .expect("gzip");
    plain.into()
}

fn decoded(bytes: &[u8], headers: &BTreeMap<String, Value>) -> Option<Value> {
    let content_type = headers
        .get("Content-Type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if bytes.is_empty() {
        return None;
    }
    if content_type.contains("protobuf") {
        return Some(json!({ "base64": STANDARD.encode(bytes) }));
    }
    let json = content_type
        .contains("json")
        .then(|| serde_json::from_slice(bytes).ok())
        .flatten();
    Some(json.unwrap_or_else(|| json!({ "text": String::from_utf8_lossy(bytes) })))
}

/// Large documents were recorded as their keys.
fn projected(body: Option<Value>, projection: &str) -> Option<Value> {
    let mut body = body?;
    if let Some(text) = body.get("text").and_then(Value::as_str) {
        body = serde_json::from_str(text).unwrap_or(body);
    }
    let keys = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .into_iter()
            .flat_map(|members| members.keys().cloned())
            .collect()
    };
    let paths = body["paths"].as_object().cloned().unwrap_or_default();
    match projection {
        "openapi-v3-index" => {
            let short = |value: &Value| {
                let address = value["serverRelativeURL"].as_str().unwrap_or_default();
                let (path, _) = address.split_once("?hash=").unwrap_or((address, ""));
                Value::from(format!("{path}?hash=<hash>"))
            };
            let paths: Map<String, Value> = paths
                .iter()
                .map(|(name, value)| (name.clone(), short(value)))
                .collect();
            Some(json!({ "paths": paths }))
        }
        "openapi-v3-keys" => {
            let methods = |value: &Value| -> Vec<String> {
                keys(value)
                    .into_iter()
                    .filter(|key| key != "parameters")
                    .collect()
            };
            let paths: Map<String, Value> = paths
                .iter()
                .map(|(name, value)| (name.clone(), json!(methods(value))))
                .collect();
            let schemas = keys(&body["components"]["schemas"]);
            Some(
                json!({ "openapi": body["openapi"], "info": body["info"], "paths": paths, "schemas": schemas }),
            )
        }
        "openapi-v2-keys" => {
            Some(json!({ "swagger": body["swagger"], "keys": keys(&body), "info": body["info"] }))
        }
        _ => None,
    }
}

/// `status.conditions[type=Established].status`.
fn find<'v>(value: Option<&'v Value>, path: &str) -> Option<&'v Value> {
    let mut current = value?;
    for part in path.split(['.', '[']) {
        current = match part.strip_suffix(']') {
            Some(condition) => {
                let (key, wanted) = condition.split_once('=')?;
                current.as_array()?.iter().find(|item| item[key] == wanted)?
            }
            None => current.get(part)?,
        };
    }
    Some(current)
}
