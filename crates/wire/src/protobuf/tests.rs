use serde_json::{Value, json};

use super::primitive::{WireType, put_bytes, put_tag, put_varint};
use super::*;
use crate::schema::{Schema, TypeId};

fn id(name: &str) -> TypeId {
    Schema::builtin().type_named(name).unwrap()
}

fn read(type_name: &str, raw: &[u8]) -> Result<Value, String> {
    let message = Message::of_type(Schema::builtin(), id(type_name), raw);
    let value = message.to_value().map_err(|error| error.to_string());
    let text = message.to_json().map_err(|error| error.to_string());
    assert_eq!(
        text.map(|text| serde_json::from_slice::<Value>(&text).unwrap()),
        value,
        "text and value differ"
    );
    value
}

fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, bytes) in fields {
        put_bytes(&mut out, *number, bytes);
    }
    out
}

#[test]
fn bad_input_is_named_with_its_offset() {
    let check = |type_name: &str, raw: &[u8], expected: &str| {
        assert_eq!(read(type_name, raw).unwrap_err(), expected);
    };
    check(
        "core/v1.Pod",
        &[0x0a, 9, 0x0a, 3, b'a'],
        "invalid protobuf at byte 1: truncated",
    );
    check(
        "core/v1.Pod",
        &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f],
        "invalid protobuf at byte 1: truncated",
    );
    check(
        "core/v1.Pod",
        &[0x08, 1],
        "invalid protobuf at byte 1: field 1 has the wrong wire type",
    );
    check(
        "core/v1.Pod",
        &message(&[(1, &message(&[(1, b"a\xff")]))]),
        "invalid protobuf at byte 5: invalid UTF-8 in field 1",
    );
    check(
        "apps/v1.ControllerRevision",
        &message(&[(1, b""), (2, &message(&[(1, b"{nope")]))]),
        "invalid protobuf at byte 6: invalid JSON within: key must be a string at line 1 column 2",
    );
}

#[test]
fn messages_may_not_nest_without_end() {
    let mut raw = Vec::new();
    for _ in 0..300 {
        raw = message(&[(28, &raw)]);
    }
    let error = read("apiextensions/v1.JSONSchemaProps", &raw).unwrap_err();
    assert!(error.ends_with("nested deeper than 254 messages"), "{error}");
    let mut value = json!({});
    for _ in 0..300 {
        value = json!({ "not": value });
    }
    let error =
        encode_message(Schema::builtin(), id("apiextensions/v1.JSONSchemaProps"), &value).unwrap_err();
    assert_eq!(error.reason, "nested deeper than 254 messages");
}

#[test]
fn unknown_fields_are_passed_over() {
    let mut raw = message(&[(1, &message(&[(1, b"a"), (99, b"later")])), (1000, b"later")]);
    put_tag(&mut raw, 1001, WireType::Varint);
    put_varint(&mut raw, 1);
    assert_eq!(
        read("core/v1.ConfigMap", &raw).unwrap(),
        json!({"metadata": {"name": "a"}})
    );
}

#[test]
fn another_order_of_fields_means_the_same() {
    let entry = |key: &[u8], value: &[u8]| message(&[(2, value), (1, key)]);
    let raw = message(&[
        (2, &entry(b"a", b"1")),
        (1, &message(&[(3, b"ns"), (1, b"first")])),
        (2, &entry(b"b", b"2")),
        (1, &message(&[(1, b"last")])),
    ]);
    assert_eq!(
        read("core/v1.ConfigMap", &raw).unwrap(),
        json!({"metadata": {"name": "last", "namespace": "ns"}, "data": {"a": "1", "b": "2"}})
    );
}

#[test]
fn packed_numbers_are_read() {
    // supplementalGroups: [1, 300, 2]
    let raw = message(&[(4, &[1, 0xac, 0x02]), (4, &[2])]);
    let value = read("core/v1.PodSecurityContext", &raw).unwrap();
    assert_eq!(value, json!({"supplementalGroups": [1, 300, 2]}));
}

#[test]
fn a_watch_event_shows_the_object_it_carries() {
    let pod = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}});
    let body = encode_body(Schema::builtin(), &pod).unwrap();
    let event = message(&[(1, b"ADDED"), (2, &message(&[(1, &body)]))]);
    let value = read("meta/v1.WatchEvent", &event).unwrap();
    assert_eq!(value["type"], "ADDED");
    assert_eq!(value["object"]["metadata"], json!({"name": "n"}));
    assert_eq!(value["object"]["kind"], "Node");

    let mut stranger = Vec::new();
    Envelope {
        api_version: "example.com/v1",
        kind: "Widget",
        raw: b"",
    }
    .write(&mut stranger);
    let event = message(&[(1, b"ADDED"), (2, &message(&[(1, &stranger)]))]);
    assert_eq!(
        read("meta/v1.WatchEvent", &event).unwrap_err(),
        "invalid protobuf at byte 11: no kind \"Widget\" in version \"example.com/v1\""
    );
}

/// The name of the deserializer that reads it.
#[derive(Debug)]
struct Probe(&'static str);

impl<'de> serde::Deserialize<'de> for Probe {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(input)?;
        Ok(Self(std::any::type_name::<D>()))
    }
}

/// A third deserializer would compile every struct in a list once more, in every program.
#[test]
fn raw_json_is_read_by_the_deserializer_of_json_objects() {
    #[derive(Debug, serde::Deserialize)]
    struct List {
        default: Vec<Probe>,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Map {
        default: std::collections::BTreeMap<String, Probe>,
    }
    fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, String> {
        let raw = message(&[(8, &message(&[(1, json.as_bytes())]))]);
        let read = Message::of_type(Schema::builtin(), id("apiextensions/v1.JSONSchemaProps"), &raw).decode();
        read.map_err(|error| error.to_string())
    }
    let list: List = read("[1]").unwrap();
    let map: Map = read(r#"{"a": 1}"#).unwrap();
    let of_objects = std::any::type_name::<&mut crate::json::de::Json<'_>>();
    assert_eq!((list.default[0].0, map.default["a"].0), (of_objects, of_objects));

    // The errors are those of serde_json.
    assert_eq!(
        read::<Map>(r#"{"a": 1} x"#).unwrap_err(),
        "invalid protobuf at byte 4: invalid JSON within: trailing characters at line 1 column 10"
    );
    assert_eq!(
        read::<List>("7").unwrap_err(),
        "invalid protobuf at byte 4: invalid JSON within: invalid type: integer `7`, expected a sequence at line 1 column 1"
    );
}

#[test]
fn raw_json_becomes_one_line() {
    let raw = message(&[(
        2,
        &message(&[(1, b"{\n \"a b\" : \"c \\\" d\",\n \"e\": [1, 2]\n}")]),
    )]);
    let revision = Message::of_type(Schema::builtin(), id("apps/v1.ControllerRevision"), &raw);
    let text = String::from_utf8(revision.to_json().unwrap()).unwrap();
    assert_eq!(
        text,
        r#"{"metadata":{},"data":{"a b":"c \" d","e":[1,2]},"revision":0}"#
    );
}

#[test]
fn values_without_a_protobuf_form_are_named_with_their_path() {
    let check = |value: Value, expected: &str| {
        let error = encode_body(Schema::builtin(), &value).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
    check(
        pod(json!({"containers": [{"name": "a"}, {"name": 1}]})),
        "cannot write \"spec.containers[1].name\" as protobuf: expected a string, found number",
    );
    check(
        pod(json!({"nodeSelector": {"a": true}})),
        "cannot write \"spec.nodeSelector[a]\" as protobuf: expected a string, found bool",
    );
    check(
        pod(json!({"activeDeadlineSeconds": 1.5})),
        "cannot write \"spec.activeDeadlineSeconds\" as protobuf: expected an integer, found number",
    );
    check(
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []}),
        "cannot write \"\" as protobuf: no protobuf for kind \"Table\" in version \"meta.k8s.io/v1\"",
    );
    check(
        json!({"apiVersion": "example.com/v1", "kind": "Widget"}),
        "cannot write \"\" as protobuf: no protobuf for kind \"Widget\" in version \"example.com/v1\"",
    );
}
