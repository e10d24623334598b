//! The guarantees of an object, in both encodings.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ListSplitter;
use crate::protobuf::primitive::put_bytes;

fn pod() -> Arc<GroupVersionKind> {
    Arc::new(GroupVersionKind::new("", "v1", "Pod"))
}

const JSON: &str = r#"{"metadata":{"name":"web-0","namespace":"shop","uid":"u-1","resourceVersion":"42","generation":3,
    "deletionTimestamp":"2026-11-15T21:19:23Z","labels":{"app":"web"},"annotations":{"note":"x"},
    "ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web","uid":"u-0","controller":true}],
    "finalizers":["a/b"],"managedFields":[{"manager":"m"}]},"spec":{"nodeName":"n"}}"#;

/// The same object as [`JSON`].
fn protobuf() -> Vec<u8> {
    let message = |fields: &[(u32, &[u8])]| {
        let mut out = Vec::new();
        fields
            .iter()
            .for_each(|(number, value)| put_bytes(&mut out, *number, value));
        out
    };
    let label = message(&[(1, b"app"), (2, b"web")]);
    let note = message(&[(1, b"note"), (2, b"x")]);
    let owner = [
        message(&[(1, b"StatefulSet"), (3, b"web"), (4, b"u-0"), (5, b"apps/v1")]),
        vec![0x30, 1],
    ]
    .concat();
    let metadata = [
        message(&[(1, b"web-0"), (2, b""), (3, b"shop"), (5, b"u-1"), (6, b"42")]),
        vec![0x38, 3],
        // 1794777563 seconds: 2026-11-15T21:19:23Z.
        message(&[(9, &[0x08, 0xdb, 0xc3, 0xe8, 0xd7, 0x06])]),
        message(&[
            (11, &label),
            (12, &note),
            (13, &owner),
            (14, b"a/b"),
            (17, b"\x0a\x01m"),
        ]),
    ]
    .concat();
    message(&[(1, &metadata), (2, b"\x52\x01n")])
}

fn both() -> [Object; 2] {
    [
        (Encoding::Json, JSON.as_bytes().to_vec()),
        (Encoding::Protobuf, protobuf()),
    ]
    .map(|(encoding, bytes)| Object::from_item(encoding, &bytes, &pod(), &ObjectOptions::default()).unwrap())
}

#[test]
fn every_question_has_the_same_answer_in_both_encodings() {
    for object in both() {
        assert_eq!((object.kind(), &*object.api_version()), ("Pod", "v1"));
        assert_eq!(object.key().to_string(), "shop/web-0");
        assert_eq!(
            (object.uid(), object.resource_version(), object.generation()),
            ("u-1", "42", 3)
        );
        assert!(object.is_deleting());
        assert_eq!(
            object.deletion_timestamp().unwrap().to_rfc3339(),
            "2026-11-15T21:19:23Z"
        );
        assert_eq!(
            (object.label("app").as_deref(), object.label("x")),
            (Some("web"), None)
        );
        assert_eq!(object.annotation("note").as_deref(), Some("x"));
        assert_eq!(object.controller().unwrap().name, "web");
        assert_eq!(object.finalizers(), ["a/b"]);
        assert_eq!(object.header().key(), object.key());
    }
    let [json, protobuf] = both();
    assert_eq!(json.header(), protobuf.header());
    assert!(json.is_same_version(&protobuf) && json != protobuf);
}

#[test]
fn a_clone_is_the_same_memory() {
    for object in both() {
        let clone = object.clone();
        assert!(clone.is_shared_with(&object));
        assert_eq!(clone, object);
        assert!(
            object.memory_size() < object.bytes().len() + 120,
            "{}",
            object.memory_size()
        );
    }
}

#[test]
fn managed_fields_are_cut_out_unless_asked_for() {
    for (encoding, bytes) in [
        (Encoding::Json, JSON.as_bytes().to_vec()),
        (Encoding::Protobuf, protobuf()),
    ] {
        let keep = |keep_managed_fields| {
            let options = ObjectOptions { keep_managed_fields };
            Object::from_item(encoding, &bytes, &pod(), &options).unwrap()
        };
        assert_eq!(keep(true).bytes(), bytes);
        assert!(keep(false).bytes().len() < bytes.len());
        assert_eq!(keep(false).header(), keep(true).header());
    }
}

#[test]
fn a_stated_type_holds_and_an_expected_one_is_shared() {
    let kind = pod();
    let check = |text: &str, stated: &str, shared: bool| {
        let object =
            Object::from_item(Encoding::Json, text.as_bytes(), &kind, &ObjectOptions::default()).unwrap();
        assert_eq!(object.group_version_kind().to_string(), stated);
        assert_eq!(Arc::ptr_eq(object.group_version_kind(), &kind), shared, "{text}");
    };
    check(r#"{"metadata":{}}"#, "/v1, Kind=Pod", true);
    check(
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
        "/v1, Kind=Pod",
        true,
    );
    check(
        r#"{"kind":"Job","apiVersion":"batch/v1","metadata":{}}"#,
        "batch/v1, Kind=Job",
        false,
    );
    let error =
        Object::from_json(br#"{"apiVersion":"a/b/c","kind":"X"}"#, &ObjectOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "invalid apiVersion");
}

#[test]
fn escaped_texts_are_kept_unescaped() {
    let text =
        br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"w\u0065b","namespace":"ns","uid":"\u0075"}}"#;
    let object = Object::from_json(text, &ObjectOptions::default()).unwrap();
    assert_eq!(
        (object.name(), object.namespace(), object.uid()),
        ("web", "ns", "u")
    );
    assert_eq!(object.bytes(), text);
}

#[test]
fn json_always_states_its_type() {
    let check = |text: &str, json: &str| {
        let object =
            Object::from_item(Encoding::Json, text.as_bytes(), &pod(), &ObjectOptions::default()).unwrap();
        assert_eq!(str::from_utf8(&object.to_json().unwrap()).unwrap(), json);
    };
    check(
        r#"{"metadata":{}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{}}"#,
    );
    check(" { }", r#"{"kind":"Pod","apiVersion":"v1" }"#);
    let behind = r#"{"metadata":{},"kind":"Pod","apiVersion":"v1"}"#;
    check(behind, behind);
}

#[test]
fn both_encodings_decode_alike() {
    let mut expected: Value = serde_json::from_str(JSON).unwrap();
    expected["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    expected["kind"] = json!("Pod");
    expected["apiVersion"] = json!("v1");
    let [json, protobuf] = both();
    assert_eq!(json.to_value().unwrap(), expected);
    // Protobuf distinguishes absent from empty only where Go does; everything sent is still there.
    let decoded: Value = serde_json::from_slice(&protobuf.to_json().unwrap()).unwrap();
    assert_eq!(decoded["metadata"], expected["metadata"]);
    assert_eq!(
        (&decoded["kind"], &decoded["apiVersion"]),
        (&json!("Pod"), &json!("v1"))
    );
    assert_eq!(decoded["spec"]["nodeName"], "n");
}

#[test]
fn a_custom_kind_has_no_protobuf() {
    let kind = Arc::new(GroupVersionKind::new("example.com", "v1", "Widget"));
    let object =
        Object::from_item(Encoding::Protobuf, &protobuf(), &kind, &ObjectOptions::default()).unwrap();
    let error = object.to_value().unwrap_err().to_string();
    assert!(
        error.starts_with("cannot decode example.com/v1 Widget shop/web-0: "),
        "{error}"
    );
}

#[test]
fn an_object_that_is_not_what_was_asked_for_is_named() {
    let text = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns"},"spec":[}"#;
    let object = Object::from_json(text, &ObjectOptions::default()).unwrap();
    let error = object.to_value().unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot decode v1 Pod ns/a: expected value at line 1 column 82"
    );
}

/// Objects with and without metadata, with `managedFields` anywhere in it.
fn any_object() -> impl Strategy<Value = Value> {
    let text = r#"[a-z"\\{}é]{0,12}"#;
    let managed = prop::option::of(prop::collection::vec(text, 0..4));
    (text, text, managed, prop::collection::btree_map(text, text, 0..4)).prop_map(|(name, other, managed, labels)| {
        let mut object = json!({"kind": "X", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "spec": other});
        if let Some(managed) = managed {
            object["metadata"]["managedFields"] = json!(managed);
            object["metadata"]["zone"] = json!(other);
        }
        object
    })
}

/// As a server writes it.
const SERVED: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"shop","uid":"u-1","resourceVersion":"42","generation":3,"creationTimestamp":"2026-11-15T21:19:23Z","deletionTimestamp":"2026-11-15T21:19:23Z","labels":{"app":"web"},"annotations":{"note":"{\"a\\\"]\":[\"é\"]}"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web","uid":"u-0","controller":true}],"finalizers":["a/b"],"managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}]},"spec":{"list":[1,true,null,{}]},"status":{}}"#;

/// Text an edit inserts: pieces of JSON and of objects.
const INSERTED: &[&str] = &[
    "",
    "",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\\",
    " ",
    "\n",
    "é",
    "1",
    "null",
    "{}",
    "\u{1}",
    "},{",
    r#""name":"b","#,
    r#""metadata":{},"#,
    r#""managedFields":[],"#,
    r#""kind":"X","#,
    r#""k\u0069nd":"X","#,
    r#""deletionTimestamp":null,"#,
    r#""labels":null,"#,
    r#""generation":-1,"#,
];

/// The number of bytes removed, mostly none, and the text inserted.
fn any_edit() -> impl Strategy<Value = (usize, &'static str)> {
    let removed = (0usize..40).prop_map(|bytes| bytes.saturating_sub(20));
    (removed, prop::sample::select(INSERTED))
}

/// Everything an object records beside its bytes.
fn noted(object: &Object) -> (&GroupVersionKind, [&str; 4], i64, bool) {
    let texts = [
        object.name(),
        object.namespace(),
        object.uid(),
        object.resource_version(),
    ];
    (
        object.group_version_kind(),
        texts,
        object.generation(),
        object.is_deleting(),
    )
}

/// The objects of a list in chunks, and the final result.
fn split(
    body: &[u8],
    size: usize,
    at_once: bool,
    kind: &Arc<GroupVersionKind>,
    options: &ObjectOptions,
) -> (Vec<Result<Object, WireError>>, Result<(), WireError>) {
    let (mut splitter, mut objects) = (ListSplitter::new(Encoding::Json), Vec::new());
    for mut chunk in body.chunks(size) {
        loop {
            if at_once && let Some(object) = splitter.next_object(&mut chunk, kind, options) {
                objects.push(Ok(object));
                continue;
            }
            match splitter.next(&mut chunk) {
                Ok(Some(item)) => {
                    let raw = RawObject::item(Encoding::Json, item);
                    objects.push(Object::from_raw_carefully(raw, kind, options));
                }
                Ok(None) => break,
                Err(error) => return (objects, Err(error)),
            }
        }
    }
    (objects, splitter.finish())
}

#[test]
fn what_servers_write_is_read_at_once() {
    let check = |text: &str| {
        let read = Object::from_json_front(text.as_bytes(), &pod(), &ObjectOptions::default());
        read.map(|(object, length)| (object.name().to_owned(), length))
    };
    assert_eq!(check(SERVED), Some(("web-0".into(), SERVED.len())));
    assert_eq!(check(r#"{"metadata":{}},{"#), Some((String::new(), 15)));
    for careful in [
        "",
        "{}",
        r#"{ "metadata":{}}"#,
        r#"{"metadata":null}"#,
        r#"{"metadata":{"name":"\u0061"}}"#,
        r#"{"metadata":{"managedFields":1,"managedFields":2}}"#,
        r#"{"metadata":{},"spec":[}"#,
    ] {
        assert_eq!(check(careful), None, "{careful}");
    }
}

#[test]
fn nesting_is_as_deep_as_a_splitter_allows_or_left_to_it() {
    for depth in 120..130 {
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        for item in [
            format!(r#"{{"metadata":{{}},"a":{deep}}}"#),
            format!(r#"{{"metadata":{{"a":{deep}}}}}"#),
        ] {
            let body = format!(r#"{{"items":[{item}]}}"#);
            let run = |at_once| {
                split(
                    body.as_bytes(),
                    body.len(),
                    at_once,
                    &pod(),
                    &ObjectOptions::default(),
                )
            };
            assert_eq!(run(true), run(false), "{depth}");
        }
    }
}

proptest! {
    #[test]
    fn cutting_managed_fields_is_decoding_and_removing_them(mut value in any_object()) {
        let object = Object::from_json(value.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
        value["metadata"].as_object_mut().unwrap().remove("managedFields");
        prop_assert_eq!(object.name(), value["metadata"]["name"].as_str().unwrap());
        prop_assert_eq!(object.labels().len(), value["metadata"]["labels"].as_object().unwrap().len());
        prop_assert_eq!(object.to_value().unwrap(), value);
    }

    #[test]
    fn what_is_read_at_once_is_what_the_careful_readers_read(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any_edit()), 0..3),
        keep_managed_fields: bool,
        size in 1usize..700,
    ) {
        let mut text = SERVED.as_bytes().to_vec();
        for (index, (remove, insert)) in edits {
            let start = index.index(text.len());
            text.splice(start..text.len().min(start + remove), insert.bytes());
        }
        let (kind, options) = (pod(), ObjectOptions { keep_managed_fields });
        if let Some((object, length)) = Object::from_json_front(&text, &kind, &options) {
            let raw = RawObject::item(Encoding::Json, &text[..length]);
            let careful = Object::from_raw_carefully(raw, &kind, &options).unwrap();
            prop_assert_eq!(&object, &careful);
            prop_assert_eq!(noted(&object), noted(&careful));
            prop_assert_eq!(object.header(), careful.header());
        }
        // Items may contain text that ends them, and the list, early.
        let body = [br#"{"kind":"PodList","items":["#, &text[..], b",", &text[..], b"]}"].concat();
        prop_assert_eq!(split(&body, size, true, &kind, &options), split(&body, size, false, &kind, &options));
    }

    #[test]
    fn any_bytes_end_in_an_object_or_an_error(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..80), r#"\{"metadata":\{[{}",:na]{0,30}"#.prop_map(String::into_bytes)],
        keep_managed_fields: bool,
    ) {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            if let Ok(object) = Object::from_item(encoding, &bytes, &pod(), &ObjectOptions { keep_managed_fields }) {
                let _ = (object.header(), object.annotations(), object.to_value(), format!("{object:?}"));
            }
        }
    }

    #[test]
    fn a_protobuf_object_with_one_wrong_byte_is_read_or_refused(at in 0usize..200, byte: u8) {
        let mut bytes = protobuf();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(object) = Object::from_item(Encoding::Protobuf, &bytes, &pod(), &ObjectOptions::default()) {
            let _ = (object.header(), object.annotations(), object.labels());
        }
    }
}
