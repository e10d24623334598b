//! Realistic pods: two containers, ports, environment, a volume, an owner, labels, annotations, `managedFields`,
//! status. And namespaces, as an example of small objects.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;
use watchkeeper_wire::protobuf::primitive::put_bytes;
use watchkeeper_wire::protobuf::{Envelope, encode_message};
use watchkeeper_wire::schema::Schema;

/// One pod, in the order in which a server encodes it; `$` marks parts that differ from pod to pod.
const TEMPLATE: &str = include_str!("pod.json");

/// One namespace, in the same way.
const NAMESPACE: &str = r#"{"metadata":{"name":"$NAME","uid":"$UID","resourceVersion":"$VERSION","creationTimestamp":"2026-11-15T21:19:23Z","labels":{"kubernetes.io/metadata.name":"$NAME"},"managedFields":[{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-11-15T21:19:23Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/metadata.name":{}}}}}]},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#;

/// Pods per owner.
const REPLICAS: usize = 10;

/// Owners per namespace.
const OWNERS: usize = 30;

/// The same list in both encodings, as a server sends it.
pub struct Bodies {
    /// The number of pods.
    pub pods: usize,
    /// As JSON.
    pub json: Vec<u8>,
    /// As protobuf.
    pub protobuf: Vec<u8>,
}

/// One pod as JSON.
pub fn one(number: usize) -> String {
    pod(&template(), number)
}

/// One pod after a change.
pub fn one_at(number: usize, version: usize) -> String {
    let template = template().replace("$VERSION", &version.to_string());
    pod(&template, number)
}

/// The namespace whose first pod this is, if there is one.
pub fn namespace_begun_by(number: usize) -> Option<String> {
    let pods_per_namespace = REPLICAS * OWNERS;
    number
        .is_multiple_of(pods_per_namespace)
        .then(|| format!("team-{}", number / pods_per_namespace))
}

impl Bodies {
    /// Generates that many pods.
    pub fn generate(pods: usize) -> Result<Self> {
        let template = template();
        let items: Vec<String> = (0..pods).map(|number| pod(&template, number)).collect();
        Self::of("Pod", &items)
    }

    /// Generates that many namespaces.
    pub fn namespaces(count: usize) -> Result<Self> {
        let items: Vec<String> = (0..count).map(namespace).collect();
        Self::of("Namespace", &items)
    }

    fn of(kind: &str, items: &[String]) -> Result<Self> {
        Ok(Self {
            pods: items.len(),
            json: json_list(kind, items),
            protobuf: protobuf_list(kind, items)?,
        })
    }
}

impl fmt::Display for Bodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_pod = |body: &[u8]| body.len() / self.pods.max(1);
        let (json, protobuf) = (per_pod(&self.json), per_pod(&self.protobuf));
        write!(f, "{json} bytes of JSON, {protobuf} bytes of protobuf per pod")
    }
}

fn template() -> String {
    TEMPLATE.lines().map(str::trim_start).collect()
}

/// Generates pods one by one.
pub fn values(pods: usize) -> impl Iterator<Item = Result<Value>> {
    let template = template();
    (0..pods).map(move |number| Ok(serde_json::from_str(&pod(&template, number))?))
}

fn pod(template: &str, number: usize) -> String {
    let owner = number / REPLICAS;
    let uid = |kind: u32, number: usize| format!("{kind:08x}-5eed-4e1c-98bf-{number:012x}");
    let app = format!("app-{}", owner % OWNERS);
    template
        .replace("$OWNER_UID", &uid(1, owner))
        .replace("$NAMESPACE", &format!("team-{}", owner / OWNERS))
        .replace("$NAME", &format!("{app}-7d4b9c6f58-{number:05x}"))
        .replace("$OWNER", &format!("{app}-7d4b9c6f58"))
        .replace("$UID", &uid(2, number))
        .replace("$VERSION", &(100_000 + number).to_string())
        .replace(
            "$POD_IP",
            &format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255),
        )
        .replace("$NODE", &format!("node-{}", number % 300))
        .replace("$APP", &app)
}

fn namespace(number: usize) -> String {
    NAMESPACE
        .replace("$NAME", &format!("team-{number}"))
        .replace("$UID", &format!("00000003-5eed-4e1c-98bf-{number:012x}"))
        .replace("$VERSION", &(100_000 + number).to_string())
}

fn json_list(kind: &str, items: &[String]) -> Vec<u8> {
    let head = format!(
        r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"900000"}},"items":["#
    );
    [&head, &items.join(","), "]}\n"].concat().into_bytes()
}

fn protobuf_list(kind: &str, items: &[String]) -> Result<Vec<u8>> {
    let schema = Schema::builtin();
    let id = schema.kind("v1", kind).context("no schema of that kind")?;
    let mut raw = Vec::new();
    put_bytes(&mut raw, 1, b"\x0a\x00\x12\x06900000\x1a\x00");
    for item in items {
        let value: Value = serde_json::from_str(item)?;
        put_bytes(&mut raw, 2, &encode_message(schema, id, &value)?);
    }
    let mut body = Vec::with_capacity(raw.len() + 64);
    Envelope {
        api_version: "v1",
        kind: &format!("{kind}List"),
        raw: &raw,
    }
    .write(&mut body);
    Ok(body)
}
