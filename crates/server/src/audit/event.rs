//! An `audit.k8s.io/v1` Event, completed while a request is handled.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use watchkeeper_meta::Time;
use watchkeeper_registry::{AuditAnnotations, Clock, User};

use super::policy::{Level, Stage};
use crate::filter::Call;
use crate::request_info::RequestInfo;

/// An event without its stage.
#[derive(Debug)]
pub(super) struct Event {
    /// The fields known when the request arrives.
    head: Map<String, Value>,
    annotations: BTreeMap<&'static str, String>,
    /// The annotations of admission.
    pub admission: Arc<AuditAnnotations>,
    response_status: Option<Value>,
    pub request_object: Option<Value>,
    pub response_object: Option<Value>,
}

impl Event {
    /// The event of a new request. `impersonator` is the authenticated user, if it impersonates another.
    pub(super) fn new(call: &Call, impersonator: Option<&User>, level: Level) -> Self {
        let uri = call.head.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let mut head = Map::new();
        let mut put = |name: &str, value: Value| head.insert(name.to_owned(), value);
        put("kind", json!("Event"));
        put("apiVersion", json!("audit.k8s.io/v1"));
        put("level", json!(level.as_str()));
        put("auditID", json!(call.audit_id.to_str().unwrap_or_default()));
        put("requestURI", json!(uri));
        put("verb", json!(call.info.verb));
        put("user", user(impersonator.unwrap_or(&call.user)));
        if impersonator.is_some() {
            put("impersonatedUser", user(&call.user));
        }
        if let Some(address) = call.source {
            put("sourceIPs", json!([address.ip().to_string()]));
        }
        if !call.user_agent().is_empty() {
            put("userAgent", json!(call.user_agent()));
        }
        if let Some(object) = object(&call.info) {
            put("objectRef", object);
        }
        put("requestReceivedTimestamp", json!(micros(Clock.now())));
        Self {
            head,
            annotations: BTreeMap::new(),
            admission: Arc::new(AuditAnnotations::new(level >= Level::Request)),
            response_status: None,
            request_object: None,
            response_object: None,
        }
    }

    pub(super) fn decided(&mut self, is_allowed: bool, reason: &str) {
        let decision = if is_allowed { "allow" } else { "forbid" };
        self.annotations
            .insert("authorization.k8s.io/decision", decision.to_owned());
        self.annotations
            .insert("authorization.k8s.io/reason", reason.to_owned());
    }

    /// Records the result: the fields of a Status, else the code.
    pub(super) fn answered(&mut self, code: u16, body: Option<&Value>) {
        let mut status = json!({"metadata": {}, "code": code});
        let described = body.filter(|body| body["kind"] == "Status" && body["apiVersion"] == "v1");
        for field in ["status", "message", "reason", "details"] {
            if let Some(value) = described.and_then(|described| described.get(field)) {
                status[field] = value.clone();
            }
        }
        self.response_status = Some(status);
    }

    /// The event of a stage, as a line.
    pub(super) fn line(&self, stage: Stage, now: Time) -> Vec<u8> {
        let mut event = self.head.clone();
        let mut put = |name: &str, value: Value| event.insert(name.to_owned(), value);
        put("stage", json!(stage.as_str()));
        put("stageTimestamp", json!(micros(now)));
        if let Some(object) = &self.request_object {
            put("requestObject", object.clone());
        }
        if stage != Stage::RequestReceived {
            for (name, value) in [
                ("responseStatus", &self.response_status),
                ("responseObject", &self.response_object),
            ] {
                value.clone().map(|value| put(name, value));
            }
        }
        let mut annotations = self.admission.all();
        let own = self.annotations.iter();
        annotations.extend(own.map(|(key, value)| ((*key).to_owned(), value.clone())));
        if !annotations.is_empty() {
            put("annotations", json!(annotations));
        }
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// The body, if it is JSON.
pub(super) fn json(body: &Bytes) -> Option<Value> {
    serde_json::from_slice(body).ok()
}

fn user(user: &User) -> Value {
    let mut described = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        described["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        described["extra"] = json!(user.extra);
    }
    described
}

fn object(request: &RequestInfo) -> Option<Value> {
    let asked = request.resource.as_ref()?;
    let fields = [
        ("resource", &asked.resource),
        ("namespace", &asked.namespace),
        ("name", &asked.name),
        ("apiGroup", &asked.group),
        ("apiVersion", &asked.version),
        ("subresource", &asked.subresource),
    ];
    let described = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Some(
        described
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect::<Map<_, _>>()
            .into(),
    )
}

/// A time with microseconds (`MicroTime`).
fn micros(time: Time) -> String {
    let text = time.to_string();
    let (date, _) = text.split_at(text.len().min("2026-11-18T00:00:00".len()));
    format!("{date}.{:06}Z", time.nanos / 1_000)
}
