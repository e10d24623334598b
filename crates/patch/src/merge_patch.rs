//! JSON merge patch (RFC 7386): objects merge, `null` deletes, everything else replaces.

use serde_json::{Map, Value};

/// Applies `patch` to `target`.
///
/// The parser limits the depth of both, so the recursion is bounded.
///
/// ```
/// use serde_json::json;
/// use watchkeeper_patch::merge_patch;
///
/// let mut object = json!({"data": {"a": "1", "b": "2"}, "list": [1, 2]});
/// merge_patch::apply(&mut object, &json!({"data": {"a": null, "c": "3"}, "list": [9]}));
/// assert_eq!(object, json!({"data": {"b": "2", "c": "3"}, "list": [9]}));
/// ```
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in patch {
        match (change, fields.get_mut(name)) {
            (Value::Null, _) => drop(fields.remove(name)),
            (change, Some(field)) => apply(field, change),
            (change, None) => {
                let mut field = Value::Null;
                apply(&mut field, change);
                fields.insert(name.clone(), field);
            }
        }
    }
}

/// The smallest merge patch that turns `from` into `to`.
///
/// A merge patch cannot set a field to null, so a null in `to` is treated as absent.
pub fn diff(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let removed = from
        .keys()
        .filter(|name| !to.contains_key(*name))
        .map(|name| (name.clone(), Value::Null));
    let changed = to.iter().filter(|(name, value)| from.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| match from.get(name) {
        Some(before) if before.is_object() && value.is_object() => (name.clone(), diff(before, value)),
        _ => (name.clone(), value.clone()),
    });
    Value::Object(removed.chain(changed).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cases_of_the_rfc() {
        let check = |mut original: Value, patch: Value, result: Value| {
            let shown = format!("{original} + {patch}");
            apply(&mut original, &patch);
            assert_eq!(original, result, "{shown}");
        };
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b"}), json!({"a": null}), json!({}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
        check(
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        );
        check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
        check(json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"]));
        check(json!({"a": "b"}), json!(["c"]), json!(["c"]));
        check(json!({"a": "foo"}), json!(null), json!(null));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"}));
        check(
            json!({}),
            json!({"a": {"bb": {"ccc": null}}}),
            json!({"a": {"bb": {}}}),
        );
    }

    /// Objects without nulls: what a merge patch can express.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..5i64).prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_diff_turns_one_into_the_other(from in value(), to in value()) {
            let mut patched = from.clone();
            apply(&mut patched, &diff(&from, &to));
            prop_assert_eq!(patched, to);
        }
    }
}
