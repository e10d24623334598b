//! The same fields are kept in both encodings, and no others.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Object, ObjectOptions};

fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"app": "web"},
            "annotations": {"note": "long"},
            "finalizers": ["a/b"],
        },
        "spec": {
            "nodeName": "n1",
            "hostNetwork": true,
            "containers": [
                {"name": "one", "image": "i1", "env": [{"name": "A", "value": "1"}]},
                {"name": "two", "image": "i2"},
            ],
            "volumes": [{"name": "v", "configMap": {"name": "m", "optional": true}}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    })
}

/// The object in JSON and in protobuf.
fn both(value: &Value) -> [Object; 2] {
    let options = ObjectOptions::default();
    let protobuf = crate::protobuf::encode_body(Schema::builtin(), value).unwrap();
    [
        Object::from_json(value.to_string().as_bytes(), &options).unwrap(),
        Object::from_protobuf(&protobuf, &options).unwrap(),
    ]
}

fn mask(paths: &[&str]) -> FieldMask {
    FieldMask::new("v1", "Pod", paths.iter().copied()).unwrap()
}

/// Drops nulls and empty values, which protobuf fills in for required fields.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members
                .into_iter()
                .map(|(key, value)| (key, without_empty(value)));
            Value::Object(members.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || *value == json!("") || *value == json!({}) || *value == json!([])
}

#[test]
fn the_named_fields_and_the_identity_are_kept_in_both_encodings() {
    let check = |paths: &[&str], annotations: bool, rest: Value| {
        let mut expected = pod();
        expected
            .as_object_mut()
            .unwrap()
            .retain(|key, _| key != "spec" && key != "status");
        if !annotations {
            expected["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("annotations");
        }
        for (key, value) in rest.as_object().unwrap() {
            expected[key] = value.clone();
        }
        for object in both(&pod()) {
            let kept = object.masked(&mask(paths));
            assert_eq!(
                without_empty(kept.to_value().unwrap()),
                expected,
                "{:?}",
                object.encoding()
            );
            assert_eq!(
                (kept.key(), kept.uid(), kept.resource_version()),
                (object.key(), "u", "7")
            );
            assert!(kept.memory_size() < object.memory_size());
        }
    };
    check(&[], false, json!({}));
    check(&["metadata.annotations"], true, json!({}));
    check(
        &["spec.nodeName", "status.phase"],
        false,
        json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}),
    );
    check(
        &["spec.containers.image", "spec.containers.env.name"],
        false,
        json!({"spec": {"containers": [{"image": "i1", "env": [{"name": "A"}]}, {"image": "i2"}]}}),
    );
    // The source of a volume is embedded: beside its name in JSON, a message of its own in protobuf.
    check(
        &["spec.volumes.configMap.name"],
        false,
        json!({"spec": {"volumes": [{"configMap": {"name": "m"}}]}}),
    );
    check(
        &["status", "status.phase"],
        false,
        json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}}),
    );
}

#[test]
fn a_path_that_does_not_exist_is_refused_with_the_nearest() {
    let check = |path: &str, expected: &str| {
        let error = FieldMask::new("v1", "Pod", [path]).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(
        "spec.nodename",
        r#"Pod has no field "spec.nodename": did you mean "spec.nodeName"?"#,
    );
    check("sepc", r#"Pod has no field "sepc": did you mean "spec"?"#);
    check(
        "spec.containers.imag",
        r#"Pod has no field "spec.containers.imag": did you mean "spec.containers.image"?"#,
    );
    check(
        "spec.nodeName.x",
        r#""spec.nodeName" has no fields of its own: keep it as a whole"#,
    );
    check(
        "metadata.labels.app",
        r#""metadata.labels" has no fields of its own: keep it as a whole"#,
    );
    let empty = FieldMask::new("v1", "Pod", [""]).unwrap_err();
    assert!(empty.to_string().starts_with(r#"Pod has no field """#), "{empty}");
    let kind = FieldMask::new("v1", "Pot", ["spec"]).unwrap_err();
    assert_eq!(kind.to_string(), "there is no schema of v1 Pot");
    let many = FieldMask::new("v1", "Pod", (0..=MOST_PATHS).map(|_| "spec")).unwrap_err();
    assert_eq!(many, FieldMaskError::TooManyPaths);
}

#[test]
fn a_custom_kind_is_checked_by_its_own_schema() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    let mask = |path: &str| FieldMask::custom(("example.com/v1", "Task"), &schema, [path]);
    let task = json!({"apiVersion": "example.com/v1", "kind": "Task", "metadata": {"name": "a"},
        "spec": {"size": 1, "open": {"any": {"thing": 2, "else": 3}}}});
    let task = Object::from_json(task.to_string().as_bytes(), &ObjectOptions::default()).unwrap();
    let kept = |path: &str| task.masked(&mask(path).unwrap()).to_value().unwrap()["spec"].clone();
    assert_eq!(kept("spec.size"), json!({"size": 1}));
    assert_eq!(
        kept("spec.open.any.thing"),
        json!({"open": {"any": {"thing": 2}}})
    );
    let error = mask("spec.sise").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Task has no field "spec.sise": did you mean "spec.size"?"#
    );
}

#[test]
fn an_object_of_another_kind_is_left_alone() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
    for object in both(&map) {
        assert_eq!(object.masked(&mask(&["spec"])), object);
    }
}

proptest! {
    /// Every field of a pod by itself: what is kept equals what is there.
    #[test]
    fn both_encodings_keep_the_same(keep in proptest::sample::subsequence(
        vec!["spec.nodeName", "spec.hostNetwork", "spec.containers", "spec.containers.env", "spec.volumes.name",
             "spec.volumes.configMap", "status.phase", "status", "metadata.annotations"], 0..9)) {
        let [json, protobuf] = both(&pod());
        let mask = mask(&keep);
        let value = |object: &Object| without_empty(object.masked(&mask).to_value().unwrap());
        prop_assert_eq!(value(&json), value(&protobuf));
        let again = json.masked(&mask);
        prop_assert_eq!(again.masked(&mask), again);
    }
}
