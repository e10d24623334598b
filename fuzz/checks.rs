//! Properties of any input: no panic, and the same result however it is chunked.
//!
//! `cargo +nightly fuzz run json_list` searches for a violation; `cargo test -p watchkeeper-wire` runs the checks
//! over `fuzz/corpus`, on any compiler. The first byte of an input sets the chunk size.

#![allow(dead_code)]

use std::sync::Arc;

use serde_json::Value;
use watchkeeper_meta::{FieldSelector, GroupVersionKind, LabelSelector};
use watchkeeper_wire::canonical::{STRICT_LIMIT, canonicalize, read_body, strict_errors};
use watchkeeper_wire::protobuf::{Message, encode_body};
use watchkeeper_wire::schema::Schema;
use watchkeeper_wire::schema::structural::Compiler;
use watchkeeper_wire::{Encoding, ListSplitter, Object, ObjectOptions, WatchSplitter, WireError, yaml};

/// A JSON list: any chunking gives the same items, and cutting out `managedFields` equals decoding and removing them.
pub(crate) fn json_list(data: &[u8]) {
    list(Encoding::Json, data);
}

/// The same for a protobuf list.
pub(crate) fn protobuf_list(data: &[u8]) {
    list(Encoding::Protobuf, data);
}

/// A watch stream in either encoding: any chunking gives the same events.
pub(crate) fn watch(data: &[u8]) {
    let Some((&size, body)) = data.split_first() else {
        return;
    };
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let whole = events(encoding, body, usize::MAX);
        assert_eq!(events(encoding, body, usize::from(size)), whole);
    }
}

/// A protobuf body of any built-in kind: both readers of values and the text writer agree, and re-encoding is stable.
pub(crate) fn protobuf_message(data: &[u8]) {
    let schema = Schema::builtin();
    let Ok(message) = Message::open(schema, data) else {
        return;
    };
    let (value, text) = (message.to_value(), message.to_json());
    assert_eq!(value, message.decode());
    assert_eq!(value.is_ok(), text.is_ok(), "{value:?}");
    let (Ok(value), Ok(text)) = (value, text) else {
        return;
    };
    assert_eq!(
        serde_json::from_slice::<Value>(&text).expect("text is JSON"),
        value
    );
    let Ok(written) = encode_body(schema, &value) else {
        return;
    };
    // Foreign encoders may write empty values in several ways; ours has one.
    let again = Message::open(schema, &written).and_then(|message| message.to_value());
    let again = again.expect("what was written can be read");
    assert_eq!(encode_body(schema, &again).ok(), Some(written));
}

/// A schema of a custom kind and an object, as a list of two: any schema compiles or is refused, and pruning is
/// idempotent.
pub(crate) fn custom_schema(data: &[u8]) {
    let Ok(Value::Array(pair)) = serde_json::from_slice(data) else {
        return;
    };
    let [schema, object] = &pair[..] else { return };
    let mut compiler = Compiler::new();
    let Ok(id) = compiler.version("example.com/v1", "Widget", schema) else {
        return;
    };
    let schema = compiler.finish().expect("what was compiled fits together");
    if let Ok(once) = canonicalize(&schema, id, object.clone()) {
        let twice = canonicalize(&schema, id, once.value.clone()).expect("what was pruned fits");
        assert_eq!(twice.value, once.value);
        assert!(twice.unknown.is_empty());
    }
}

/// A JSON body: canonicalization does not panic and is idempotent, and every dropped field is in the body.
pub(crate) fn json_body(data: &[u8]) {
    let schema = Schema::builtin();
    let (Ok(body), Some(pod)) = (read_body(data), schema.kind("v1", "Pod")) else {
        assert!(serde_json::from_slice::<Value>(data).is_err());
        return;
    };
    assert_eq!(serde_json::from_slice(data).ok(), Some(body.value.clone()));
    if let Ok(once) = canonicalize(schema, pod, body.value) {
        let twice = canonicalize(schema, pod, once.value.clone()).expect("the canonical form fits");
        assert_eq!(twice.value, once.value);
        let found = strict_errors(schema, pod, &mut serde_json::Deserializer::from_slice(data));
        let is_found = |error| found.contains(error) || found.len() == STRICT_LIMIT;
        assert!(once.unknown.iter().all(is_found), "{found:?}");
    }
}

/// YAML: a parsed document is printed and parsed as the same.
pub(crate) fn yaml(data: &[u8]) {
    for document in yaml::documents(data, yaml::Mode::Lenient) {
        let Ok(document) = document else {
            return;
        };
        let line = yaml::line_of(data, document.line, "spec.containers[0].name");
        assert!(line >= document.line, "{line} is before {}", document.line);
        let text = yaml::to_string(&document.value);
        let again = yaml::first_document(text.as_bytes(), yaml::Mode::Strict);
        assert_eq!(
            again.expect("what was written can be read").value,
            document.value,
            "{text}"
        );
    }
}

/// Selectors: a parsed selector is printed and parsed as the same.
pub(crate) fn selectors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(selector) = text.parse::<LabelSelector>() {
        assert_eq!(selector.to_string().parse(), Ok(selector), "{text}");
    }
    if let Ok(selector) = text.parse::<FieldSelector>() {
        assert_eq!(selector.to_string().parse(), Ok(selector), "{text}");
    }
}

fn list(encoding: Encoding, data: &[u8]) {
    let Some((&size, body)) = data.split_first() else {
        return;
    };
    let whole = items(encoding, body, usize::MAX);
    assert_eq!(items(encoding, body, usize::from(size)), whole);
    if let Ok(whole) = &whole {
        assert_eq!(objects(encoding, body, usize::from(size)).as_ref(), Ok(whole));
    }
    whole
        .unwrap_or_default()
        .iter()
        .for_each(|item| object(encoding, item));
}

fn items(encoding: Encoding, body: &[u8], size: usize) -> Result<Vec<Vec<u8>>, WireError> {
    let mut splitter = ListSplitter::new(encoding);
    let mut items = Vec::new();
    for mut chunk in body.chunks(size.max(1)) {
        while let Some(item) = splitter.next(&mut chunk)? {
            items.push(item.to_vec());
        }
    }
    splitter.finish().map(|()| items)
}

/// The items again, by the fast path where it applies.
fn objects(encoding: Encoding, body: &[u8], size: usize) -> Result<Vec<Vec<u8>>, WireError> {
    let kind = Arc::new(GroupVersionKind::new("", "v1", "Pod"));
    let options = ObjectOptions {
        keep_managed_fields: true,
    };
    let mut splitter = ListSplitter::new(encoding);
    let mut items = Vec::new();
    for mut chunk in body.chunks(size.max(1)) {
        loop {
            if let Some(object) = splitter.next_object(&mut chunk, &kind, &options) {
                items.push(object.bytes().to_vec());
            } else if let Some(item) = splitter.next(&mut chunk)? {
                items.push(item.to_vec());
            } else {
                break;
            }
        }
    }
    splitter.finish().map(|()| items)
}

fn object(encoding: Encoding, bytes: &[u8]) {
    let kind = Arc::new(GroupVersionKind::new("", "v1", "Pod"));
    let read = |keep_managed_fields| {
        let options = ObjectOptions { keep_managed_fields };
        Object::from_item(encoding, bytes, &kind, &options)
    };
    let (Ok(whole), Ok(cut)) = (read(true), read(false)) else {
        return;
    };
    assert_eq!(whole.header(), cut.header());
    assert_eq!(whole.annotations(), cut.annotations());
    let Ok(mut value) = whole.to_value() else {
        return;
    };
    // A duplicate member is decoded as its last, but cut from its first.
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if bytes
            .windows(10)
            .filter(|window| window == b"\"metadata\"")
            .count()
            < 2
        {
            assert_eq!(cut.to_value(), Ok(value));
        }
    }
}

fn events(encoding: Encoding, body: &[u8], size: usize) -> Vec<Result<String, WireError>> {
    let mut splitter = WatchSplitter::new(encoding);
    let mut events = Vec::new();
    for mut chunk in body.chunks(size.max(1)) {
        while !chunk.is_empty() {
            match splitter.next(&mut chunk) {
                Ok(Some(event)) => events.push(Ok(format!("{event:?}"))),
                Ok(None) => {}
                Err(error) => {
                    let is_end = error.to_string().contains("is larger than");
                    events.push(Err(error));
                    if is_end {
                        return events;
                    }
                }
            }
        }
    }
    match splitter.finish() {
        Ok(last) => events.extend(last.map(|event| Ok(format!("{event:?}")))),
        Err(error) => events.push(Err(error)),
    }
    events
}
