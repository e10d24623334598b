//! Computes the JSON patch from one value to another.
//!
//! Objects are compared member by member, lists item by item; values of different types are replaced. Lists grow and
//! shrink at their end, so removing the first item rewrites all others. The patch is correct but not minimal;
//! webhooks answer with it.

use serde_json::{Map, Value, json};

/// The operations that turn `old` into `new`; empty if they are equal.
///
/// ```
/// use serde_json::json;
/// use watchkeeper_patch::json_patch;
///
/// let old = json!({"spec": {"replicas": 1}});
/// let new = json!({"spec": {"replicas": 2}});
/// let patch = json_patch::between(&old, &new);
/// assert_eq!(patch, json!([{"op": "replace", "path": "/spec/replicas", "value": 2}]));
/// ```
pub fn between(old: &Value, new: &Value) -> Value {
    let mut operations = Vec::new();
    compare(old, new, &mut String::new(), &mut operations);
    Value::Array(operations)
}

fn compare(old: &Value, new: &Value, path: &mut String, operations: &mut Vec<Value>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(old), Value::Object(new)) => compare_members(old, new, path, operations),
        (Value::Array(old), Value::Array(new)) => compare_items(old, new, path, operations),
        _ => operations.push(json!({"op": "replace", "path": path, "value": new})),
    }
}

fn compare_members(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: &mut String,
    operations: &mut Vec<Value>,
) {
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        at(path, &escaped(name), |path| {
            operations.push(json!({"op": "remove", "path": path}))
        });
    }
    for (name, value) in new {
        at(path, &escaped(name), |path| match old.get(name) {
            Some(before) => compare(before, value, path, operations),
            None => operations.push(json!({"op": "add", "path": path, "value": value})),
        });
    }
}

fn compare_items(old: &[Value], new: &[Value], path: &mut String, operations: &mut Vec<Value>) {
    for (index, (before, value)) in old.iter().zip(new).enumerate() {
        at(path, &index.to_string(), |path| {
            compare(before, value, path, operations)
        });
    }
    // From the end, so that the indexes stay valid.
    for index in (new.len()..old.len()).rev() {
        at(path, &index.to_string(), |path| {
            operations.push(json!({"op": "remove", "path": path}))
        });
    }
    for value in new.iter().skip(old.len()) {
        at(path, "-", |path| {
            operations.push(json!({"op": "add", "path": path, "value": value}))
        });
    }
}

/// Calls `then` with one more step on the path.
fn at(path: &mut String, step: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(step);
    then(path);
    path.truncate(length);
}

/// A segment escaped as in RFC 6901.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::json_patch::apply;

    fn check(old: Value, new: Value, expected: Expect) {
        let patch = between(&old, &new);
        let lines: Vec<String> = patch
            .as_array()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        expected.assert_eq(&lines.join("\n"));
        let mut changed = old;
        apply(&mut changed, &patch).unwrap();
        assert_eq!(changed, new);
    }

    #[test]
    fn only_what_differs_is_named() {
        check(
            json!({"a": {"b": 1, "c": [1, 2, 3]}, "d/e~f": true, "same": {"x": 1}}),
            json!({"a": {"c": [1, 4]}, "d/e~f": false, "same": {"x": 1}, "new": null}),
            expect![[r#"
                {"op":"remove","path":"/a/b"}
                {"op":"replace","path":"/a/c/1","value":4}
                {"op":"remove","path":"/a/c/2"}
                {"op":"replace","path":"/d~1e~0f","value":false}
                {"op":"add","path":"/new","value":null}"#]],
        );
        check(
            json!([1]),
            json!([1, 2, 3]),
            expect![[r#"
                {"op":"add","path":"/-","value":2}
                {"op":"add","path":"/-","value":3}"#]],
        );
        check(
            json!({"a": [1]}),
            json!({"a": {"0": 1}}),
            expect![[r#"{"op":"replace","path":"/a","value":{"0":1}}"#]],
        );
        check(json!({"a": 1}), json!({"a": 1}), expect![""]);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-c/~]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn applied_to_the_old_it_gives_the_new(old in value(), new in value()) {
            let mut changed = old.clone();
            apply(&mut changed, &between(&old, &new)).unwrap();
            prop_assert_eq!(changed, new);
        }
    }
}
