//! Splits lists, watches and objects that a Kubernetes API server sent.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use watchkeeper_meta::{GroupVersionKind, WatchEventKind};
use watchkeeper_wire::protobuf::{Envelope, Message};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::{Encoding, ListHead, ListSplitter, Object, ObjectOptions, WatchSplitter};

/// A prime, so that chunk boundaries fall everywhere.
const CHUNK: usize = 61;

/// Every recorded case.
fn cases() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/wire");
    let folders = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    folders
        .filter(|path| path.is_dir())
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|file| serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap())
        .collect()
}

/// The bodies of all answers.
fn bodies(cases: &[Value]) -> impl Iterator<Item = &Value> {
    cases
        .iter()
        .flat_map(|case| ["setup", "steps"].map(|part| &case[part]))
        .filter_map(Value::as_array)
        .flatten()
        .map(|step| &step["response"]["body"])
}

/// Recorded bytes that begin an envelope.
fn protobuf_bytes(body: &Value) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(body["base64"].as_str()?).ok()?;
    bytes.starts_with(b"k8s\0").then_some(bytes)
}

fn split(encoding: Encoding, body: &[u8]) -> (ListHead, Vec<Vec<u8>>) {
    let mut splitter = ListSplitter::new(encoding);
    let mut items = Vec::new();
    for mut chunk in body.chunks(CHUNK) {
        while let Some(item) = splitter.next(&mut chunk).unwrap() {
            items.push(item.to_vec());
        }
    }
    splitter.finish().unwrap();
    (splitter.head().clone(), items)
}

#[test]
fn json_lists_come_apart() {
    let cases = cases();
    let lists = bodies(&cases).filter(|body| body["items"].is_array() && body["metadata"].is_object());
    let mut count = 0;
    for list in lists {
        let (head, items) = split(Encoding::Json, list.to_string().as_bytes());
        let items: Vec<Value> = items
            .iter()
            .map(|item| serde_json::from_slice(item).unwrap())
            .collect();
        assert_eq!(&items, list["items"].as_array().unwrap());
        assert_eq!(head.kind, list["kind"]);
        assert_eq!(
            head.resource_version.as_str(),
            list["metadata"]["resourceVersion"].as_str().unwrap_or_default()
        );
        assert_eq!(
            head.continue_token,
            list["metadata"]["continue"].as_str().unwrap_or_default()
        );
        assert_eq!(
            head.remaining_item_count,
            list["metadata"]["remainingItemCount"].as_i64()
        );
        count += 1;
    }
    assert!(count > 20, "{count} lists");
}

/// The fast path applies to what servers send.
#[test]
fn json_lists_are_read_at_once() {
    let kind = Arc::new(GroupVersionKind::new("", "v1", "Pod"));
    let options = ObjectOptions::default();
    let cases = cases();
    let mut count = 0;
    for list in bodies(&cases).filter(|body| body["items"][0]["metadata"].is_object()) {
        let body = json!({"items": list["items"]}).to_string();
        let (mut head, mut rest) = body.as_bytes().split_at(br#"{"items":["#.len());
        let mut splitter = ListSplitter::new(Encoding::Json);
        assert_eq!(splitter.next(&mut head), Ok(None));
        for item in list["items"].as_array().unwrap() {
            let object = splitter.next_object(&mut rest, &kind, &options);
            let object = object.unwrap_or_else(|| panic!("{item}"));
            assert_eq!(
                object.name(),
                item["metadata"]["name"].as_str().unwrap_or_default()
            );
            count += 1;
        }
        assert_eq!(splitter.next(&mut rest), Ok(None));
        assert_eq!(splitter.finish(), Ok(()));
    }
    assert!(count > 50, "{count} objects");
}

#[test]
fn protobuf_lists_come_apart() {
    let cases = cases();
    let mut count = 0;
    for body in bodies(&cases).filter_map(protobuf_bytes) {
        let envelope = Envelope::read(&body).unwrap();
        let Some(item_kind) = envelope.kind.strip_suffix("List") else {
            continue;
        };
        let (head, items) = split(Encoding::Protobuf, &body);
        let whole = Message::open(Schema::builtin(), &body)
            .unwrap()
            .to_value()
            .unwrap();
        let kind = Arc::new(GroupVersionKind::from_api_version(envelope.api_version, item_kind).unwrap());
        assert_eq!(
            head.resource_version.as_str(),
            whole["metadata"]["resourceVersion"]
        );
        assert_eq!(items.len(), whole["items"].as_array().map_or(0, Vec::len));
        for (index, item) in items.iter().enumerate() {
            let options = ObjectOptions {
                keep_managed_fields: true,
            };
            let object = Object::from_item(Encoding::Protobuf, item, &kind, &options).unwrap();
            assert_eq!(
                object.to_value().unwrap()["metadata"],
                whole["items"][index]["metadata"]
            );
        }
        count += 1;
    }
    assert!(count > 2, "{count} lists");
}

#[test]
fn watches_come_apart() {
    let (mut json_events, mut protobuf_events) = (0, 0);
    for case in cases() {
        for stream in case["streams"].as_array().into_iter().flatten() {
            for frame in stream["frames"].as_array().into_iter().flatten() {
                match frame["base64"].as_str() {
                    Some(bytes) => {
                        let frame = STANDARD.decode(bytes).unwrap();
                        let body = [&(frame.len() as u32).to_be_bytes()[..], &frame].concat();
                        let (kind, object) = one_event(Encoding::Protobuf, &body);
                        assert!(kind == WatchEventKind::Error || !object.resource_version().is_empty());
                        protobuf_events += 1;
                    }
                    None => {
                        let (kind, object) = one_event(Encoding::Json, format!("{frame}\n").as_bytes());
                        assert_eq!(kind.as_str(), frame["type"]);
                        assert_eq!(
                            object.name(),
                            frame["object"]["metadata"]["name"].as_str().unwrap_or_default()
                        );
                        json_events += 1;
                    }
                }
            }
        }
    }
    assert!(
        json_events > 50 && protobuf_events > 5,
        "{json_events} and {protobuf_events} events"
    );
}

fn one_event(encoding: Encoding, body: &[u8]) -> (WatchEventKind, Object) {
    let mut splitter = WatchSplitter::new(encoding);
    let mut events = Vec::new();
    for mut chunk in body.chunks(CHUNK) {
        while let Some(event) = splitter.next(&mut chunk).unwrap() {
            let object = Object::from_raw(event.object, &Arc::default(), &ObjectOptions::default()).unwrap();
            events.push((event.kind, object));
        }
    }
    assert_eq!(splitter.finish(), Ok(None));
    let [event] = <[_; 1]>::try_from(events).unwrap();
    event
}

#[test]
fn objects_lose_their_managed_fields_and_nothing_else() {
    let cases = cases();
    let mut count = 0;
    for body in bodies(&cases).filter(|body| body["metadata"]["managedFields"].is_array()) {
        let object = Object::from_json(body.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
        let mut expected = body.clone();
        expected["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("managedFields");
        assert_eq!(object.to_value().unwrap(), expected);
        count += 1;
    }
    for body in bodies(&cases).filter_map(protobuf_bytes) {
        let Ok(object) = Object::from_protobuf(&body, &ObjectOptions::default()) else {
            continue;
        };
        let mut expected = Message::open(Schema::builtin(), &body)
            .unwrap()
            .to_value()
            .unwrap();
        if let Some(metadata) = expected["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        assert_eq!(object.to_value().unwrap(), expected);
        count += 1;
    }
    assert!(count > 200, "{count} objects");
}
