//! The format of a recording: requests, answers and streams.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(crate) struct Case {
    pub name: String,
    pub area: String,
    #[serde(default)]
    pub setup: Vec<Step>,
    pub steps: Vec<Step>,
    #[serde(default)]
    pub streams: Vec<Stream>,
}

impl Case {
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.area, self.name)
    }

    /// The ids of all steps whose answers are compared. For the setup only the status is compared, so it does not
    /// count.
    pub(crate) fn compared(&self) -> impl Iterator<Item = Compared<'_>> {
        let setup = self.setup.iter().map(|step| (&step.id, false));
        let steps = self.steps.iter().map(|step| (&step.id, true));
        let streams = self.streams.iter().map(|stream| (&stream.id, true));
        let all = setup.chain(steps).chain(streams);
        all.map(|(id, counts)| Compared { id, counts })
    }

    /// The recorded request of a step or stream.
    pub(crate) fn request(&self, id: &str) -> Option<&Request> {
        let steps = self.setup.iter().chain(&self.steps);
        let steps = steps.map(|step| (&step.id, step.request.as_ref()));
        let streams = self
            .streams
            .iter()
            .map(|stream| (&stream.id, Some(&stream.request)));
        steps.chain(streams).find(|(of, _)| *of == id)?.1
    }
}

pub(crate) struct Compared<'c> {
    pub id: &'c str,
    pub counts: bool,
}

#[derive(Deserialize)]
pub(crate) struct Step {
    pub id: String,
    /// Seconds to wait before.
    #[serde(default)]
    pub wait: f64,
    /// Repeat until the answer matches.
    pub poll: Option<Poll>,
    /// The reduction of a body.
    #[serde(default)]
    pub projection: String,
    pub request: Option<Request>,
    #[serde(default)]
    pub template: Template,
    #[serde(default)]
    pub response: Answer,
    /// An action other than a request.
    pub external: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct Poll {
    pub status: Option<u16>,
    #[serde(default, rename = "where")]
    pub conditions: BTreeMap<String, Value>,
    #[serde(default = "fifteen")]
    pub timeout: f64,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Request {
    pub method: String,
    pub path: String,
    #[serde(default)]
    pub headers: BTreeMap<String, Value>,
    /// As text: some answers quote the start of the request, and the order of its keys matters.
    pub body: Option<Box<RawValue>>,
}

/// A request with parts from earlier answers.
#[derive(Default, Deserialize)]
pub(crate) struct Template {
    pub path: Option<String>,
    pub body: Option<Value>,
    pub headers: Option<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Answer {
    #[serde(default)]
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, Value>,
    pub body: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct Stream {
    pub id: String,
    pub request: Request,
    #[serde(default)]
    pub template: Template,
    pub opened_before_step: String,
    pub closed_before_step: Option<String>,
    #[serde(default)]
    pub read: Read,
    pub response: Answer,
    #[serde(default)]
    pub frames: Vec<Value>,
    pub ended: String,
}

/// The end of reading a stream: after this many frames, or at its end.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct Read {
    pub frames: Option<usize>,
}

fn fifteen() -> f64 {
    15.0
}

/// True for a bookmark that may come at any time.
pub(crate) fn is_periodic_bookmark(frame: &Value) -> bool {
    match frame.get("base64").and_then(Value::as_str) {
        Some(text) => {
            let bytes = crate::protobuf::decode_base64(text);
            bytes.starts_with(b"\x0a\x08BOOKMARK") && !contains(&bytes, b"k8s.io/initial-events-end")
        }
        None => frame["type"] == "BOOKMARK" && !frame.to_string().contains("k8s.io/initial-events-end"),
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
