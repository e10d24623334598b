//! Three-way patches, as clients send them: they bring a user's changes to the live object and keep everything else.
//!
//! The inputs are the last configuration (*original*), the new one (*modified*) and the live object (*current*).
//! Fields of the new configuration that the live object lacks are set; fields of the last one that are not in the new
//! one are removed; everything else, such as defaults and other writers' fields, stays.
//!
//! ```
//! use serde_json::json;
//! use watchkeeper_patch::{merge_patch, three_way};
//!
//! let original = json!({"data": {"a": "1", "b": "2"}});
//! let modified = json!({"data": {"a": "9"}});
//! let mut current = json!({"data": {"a": "1", "b": "2", "theirs": "3"}});
//!
//! let patch = three_way::merge_patch(&original, &modified, &current);
//! assert_eq!(patch, json!({"data": {"a": "9", "b": null}}));
//! merge_patch::apply(&mut current, &patch);
//! assert_eq!(current, json!({"data": {"a": "9", "theirs": "3"}}));
//! ```
//!
//! A strategic patch identifies list items by their keys, as `kubectl apply` does for built-in kinds:
//!
//! ```
//! use serde_json::json;
//! use watchkeeper_patch::three_way;
//! use watchkeeper_wire::schema::Schema;
//!
//! let pod = |containers: serde_json::Value| json!({"spec": {"containers": containers}});
//! let schema = Schema::builtin();
//! let patch = three_way::strategic_patch(
//!     schema,
//!     schema.kind("v1", "Pod").unwrap(),
//!     &pod(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])),
//!     &pod(json!([{"name": "a", "image": "a:2"}])),
//!     &pod(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}, {"name": "theirs"}])),
//! );
//! assert_eq!(patch.unwrap(), json!({"spec": {
//!     "$setElementOrder/containers": [{"name": "a"}],
//!     "containers": [{"name": "a", "image": "a:2"}, {"name": "b", "$patch": "delete"}],
//! }}));
//! ```

use serde_json::{Map, Value, json};
use watchkeeper_wire::schema::{Schema, TypeId};

use crate::strategic::{
    Context, DELETE_FROM_LIST, DIRECTIVE, RETAIN_KEYS, SET_ELEMENT_ORDER, StrategicError, Strategy,
    merge_key, same,
};

/// The merge patch that brings a user's changes to an object.
pub fn merge_patch(original: &Value, modified: &Value, current: &Value) -> Value {
    let (Some(wanted), Some(live)) = (modified.as_object(), current.as_object()) else {
        return modified.clone();
    };
    let mut patch = removals(original.as_object(), wanted);
    for (name, value) in wanted {
        match live.get(name) {
            Some(live) if live == value => {}
            Some(live) if live.is_object() && value.is_object() => {
                let before = original.get(name).unwrap_or(&Value::Null);
                insert_changes(&mut patch, name, merge_patch(before, value, live));
            }
            _ => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

/// The strategic merge patch that brings a user's changes to an object of the given type.
///
/// Fails for an item of a merging list without its merge key.
pub fn strategic_patch(
    schema: &Schema,
    root: TypeId,
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Result<Value, StrategicError> {
    let (Some(wanted), Some(live)) = (modified.as_object(), current.as_object()) else {
        return Ok(modified.clone());
    };
    let context = Context {
        schema,
        id: Some(root),
    };
    maps(context, original.as_object(), wanted, live).map(Value::Object)
}

/// The fields that are in the original but no longer wanted.
fn removals(original: Option<&Map<String, Value>>, wanted: &Map<String, Value>) -> Map<String, Value> {
    let before = original.into_iter().flatten();
    let gone = before.filter(|(name, _)| !wanted.contains_key(*name));
    gone.map(|(name, _)| (name.clone(), Value::Null)).collect()
}

fn insert_changes(patch: &mut Map<String, Value>, name: &str, changes: Value) {
    if changes != json!({}) {
        patch.insert(name.to_owned(), changes);
    }
}

fn maps(
    context: Context<'_>,
    original: Option<&Map<String, Value>>,
    wanted: &Map<String, Value>,
    live: &Map<String, Value>,
) -> Result<Map<String, Value>, StrategicError> {
    let mut patch = removals(original, wanted);
    for (name, value) in wanted {
        let strategy = context.strategy(name);
        let before = original.and_then(|original| original.get(name));
        match (value, live.get(name)) {
            (Value::Object(wanted), Some(Value::Object(live))) if !strategy.replace => {
                let before = before.and_then(Value::as_object);
                let changes = union_members(&strategy, before, wanted, live)?;
                insert_changes(&mut patch, name, Value::Object(changes));
            }
            (Value::Array(wanted), Some(Value::Array(live))) if strategy.merge && !live.is_empty() => {
                let before = before.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                lists(&strategy, name, before, wanted, live, &mut patch)?;
            }
            (value, Some(live)) if value == live => {}
            (value, _) => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Ok(patch)
}

/// If the members of a map exclude each other, the patch lists those that remain, so that the server's defaults for
/// the others are dropped.
fn union_members(
    strategy: &Strategy<'_>,
    original: Option<&Map<String, Value>>,
    wanted: &Map<String, Value>,
    live: &Map<String, Value>,
) -> Result<Map<String, Value>, StrategicError> {
    let mut patch = maps(strategy.inner, original, wanted, live)?;
    let has_others = || live.keys().any(|name| !wanted.contains_key(name));
    if strategy.retain_keys && (!patch.is_empty() || has_others()) && !wanted.is_empty() {
        let kept: Vec<&String> = wanted.keys().collect();
        patch.insert(RETAIN_KEYS.to_owned(), json!(kept));
    }
    Ok(patch)
}

fn lists(
    strategy: &Strategy<'_>,
    name: &str,
    original: &[Value],
    wanted: &[Value],
    live: &[Value],
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicError> {
    let is_gone = |item: &&Value| !wanted.iter().any(|wanted| same(strategy, wanted, item));
    let gone: Vec<&Value> = original.iter().filter(is_gone).collect();
    let (changes, order) = match strategy.merge_key {
        Some(key) => {
            let mut changes = changed_items(strategy, original, wanted, live)?;
            changes.extend(
                gone.into_iter()
                    .map(|item| json!({key: item[key], DIRECTIVE: "delete"})),
            );
            let in_order = live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| same(strategy, live, wanted));
            let order = wanted.iter().map(|item| json!({key: item[key]})).collect();
            let changes_order = !changes.is_empty() || !in_order;
            (changes, changes_order.then_some(order))
        }
        None => {
            let changes: Vec<Value> = wanted
                .iter()
                .filter(|item| !live.contains(item))
                .cloned()
                .collect();
            let changes_order = !gone.is_empty() || live != wanted;
            if !gone.is_empty() {
                patch.insert(format!("{DELETE_FROM_LIST}{name}"), json!(gone));
            }
            (changes, changes_order.then(|| wanted.to_vec()))
        }
    };
    if !changes.is_empty() {
        patch.insert(name.to_owned(), Value::Array(changes));
    }
    if let Some(order) = order.filter(|order: &Vec<Value>| !order.is_empty()) {
        patch.insert(format!("{SET_ELEMENT_ORDER}{name}"), Value::Array(order));
    }
    Ok(())
}

/// The items that are new or changed, with their keys.
fn changed_items(
    strategy: &Strategy<'_>,
    original: &[Value],
    wanted: &[Value],
    live: &[Value],
) -> Result<Vec<Value>, StrategicError> {
    let mut changes = Vec::new();
    for item in wanted {
        merge_key(strategy, item)?;
        let find = |list: &[Value]| list.iter().position(|other| same(strategy, other, item));
        let before = find(original).and_then(|index| original[index].as_object());
        let there = find(live).and_then(|index| live[index].as_object());
        match (item.as_object(), there) {
            (Some(wanted), Some(there)) => {
                let mut change = union_members(strategy, before, wanted, there)?;
                if !change.is_empty() {
                    let key = strategy.merge_key.unwrap_or_default();
                    change.insert(key.to_owned(), item[key].clone());
                    changes.push(Value::Object(change));
                }
            }
            _ => changes.push(item.clone()),
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::Strategy as Generate;

    use super::{Schema, TypeId, Value, json, merge_patch, strategic_patch};
    use crate::{merge_patch as merge, strategic};

    fn deployment() -> (&'static Schema, TypeId) {
        let schema = Schema::builtin();
        (schema, schema.kind("apps/v1", "Deployment").unwrap())
    }

    fn patch_of(original: &Value, modified: &Value, current: &Value) -> Value {
        let (schema, root) = deployment();
        strategic_patch(schema, root, original, modified, current).unwrap()
    }

    fn patched(current: &Value, patch: Value) -> Value {
        let (schema, root) = deployment();
        let (Value::Object(mut object), Value::Object(patch)) = (current.clone(), patch) else {
            unreachable!("both are objects")
        };
        strategic::apply(schema, root, &mut object, patch).unwrap();
        Value::Object(object)
    }

    #[test]
    fn a_union_keeps_the_members_that_are_wanted() {
        let with = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let defaulted = with(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}));
        let patch = patch_of(&json!({}), &with(json!({"type": "Recreate"})), &defaulted);
        assert_eq!(patch, with(json!({"type": "Recreate", "$retainKeys": ["type"]})));
        assert_eq!(patched(&defaulted, patch), with(json!({"type": "Recreate"})));
    }

    #[test]
    fn scalars_that_are_no_longer_wanted_are_named() {
        let with = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
        let live = with(json!(["a/a", "b/b", "their/s"]));
        let patch = patch_of(&with(json!(["a/a", "b/b"])), &with(json!(["c/c", "a/a"])), &live);
        assert_eq!(
            patch,
            json!({"metadata": {
                "$deleteFromPrimitiveList/finalizers": ["b/b"],
                "$setElementOrder/finalizers": ["c/c", "a/a"],
                "finalizers": ["c/c"],
            }})
        );
        assert_eq!(patched(&live, patch), with(json!(["c/c", "a/a", "their/s"])));
    }

    #[test]
    fn items_need_their_keys() {
        let (schema, root) = deployment();
        let with = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let live = with(json!([{"name": "a"}]));
        let error = strategic_patch(schema, root, &json!({}), &with(json!([{"image": "x"}])), &live);
        assert_eq!(
            error.unwrap_err().to_string(),
            "map: map[image:x] does not contain declared merge key: name"
        );
    }

    /// One user's configuration of a deployment: scalars, a map, nested keyed lists, a set and a union.
    fn config(names: &'static str) -> impl Generate<Value = Value> {
        let image = prop::option::of("[x-z]");
        let env = prop::collection::btree_map(names, prop::option::of("[x-z]"), 0..3);
        let args = prop::option::of(prop::collection::vec("[p-r]", 0..3));
        let container = (image, env, args).prop_map(|(image, env, args)| {
            let env: Vec<Value> = env
                .iter()
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect();
            let mut container = json!({"env": env});
            if let Some(image) = image {
                container["image"] = json!(image);
            }
            if let Some(args) = args {
                container["args"] = json!(args);
            }
            container
        });
        let containers = prop::collection::btree_map(names, container, 0..4).prop_map(|containers| {
            let named = containers.into_iter().map(|(name, mut container)| {
                container["name"] = json!(name);
                container
            });
            named.collect::<Vec<Value>>()
        });
        let labels = prop::collection::btree_map(names, "[x-z]", 0..3);
        let finalizers = prop::collection::btree_set(names, 0..3);
        let shuffled = containers.prop_shuffle();
        (shuffled, labels, finalizers, prop::option::of(0..3i64)).prop_map(
            |(containers, labels, finalizers, replicas)| {
                let mut config = json!({
                    "metadata": {"labels": labels, "finalizers": finalizers},
                    "spec": {"template": {"spec": {"containers": containers}}},
                });
                if let Some(replicas) = replicas {
                    config["spec"]["replicas"] = json!(replicas);
                }
                without_nulls(config)
            },
        )
    }

    fn without_nulls(value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.into_iter().filter(|(_, value)| !value.is_null());
                Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
            }
            Value::Array(items) => items.into_iter().map(without_nulls).collect(),
            scalar => scalar,
        }
    }

    /// True if `whole` contains everything in `part`; list items are matched by name, in order.
    fn says(whole: &Value, part: &Value) -> bool {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => part
                .iter()
                .all(|(name, value)| whole.get(name).is_some_and(|whole| says(whole, value))),
            (Value::Array(whole), Value::Array(part)) => {
                let mut rest = whole.iter();
                part.iter().all(|item| rest.any(|other| says(other, item)))
            }
            _ => whole == part,
        }
    }

    proptest! {
        #[test]
        fn a_strategic_patch_turns_one_state_into_another(from in config("[a-d]"), to in config("[a-d]")) {
            let patch = patch_of(&from, &to, &from);
            prop_assert_eq!(patched(&from, patch), to);
        }

        #[test]
        fn a_strategic_patch_keeps_what_others_added(
            original in config("[a-d]"),
            modified in config("[a-d]"),
            theirs in config("[m-p]"),
        ) {
            // Atomic lists and scalars have one value, whoever set it.
            let theirs = json!({"metadata": theirs["metadata"]});
            let current = patched(&original, patch_of(&json!({}), &theirs, &original));
            let result = patched(&current, patch_of(&original, &modified, &current));
            prop_assert!(says(&result, &modified), "{result} is not {modified}");
            for name in theirs["metadata"]["labels"].as_object().into_iter().flatten().map(|(name, _)| name) {
                prop_assert!(result["metadata"]["labels"].get(name).is_some(), "{name} is gone: {result}");
            }
            for name in theirs["metadata"]["finalizers"].as_array().into_iter().flatten() {
                let left = result["metadata"]["finalizers"].as_array();
                prop_assert!(left.is_some_and(|left| left.contains(name)), "{name} is gone: {result}");
            }
        }

        #[test]
        fn a_merge_patch_turns_one_state_into_another(from in config("[a-d]"), to in config("[a-d]")) {
            let mut object = from.clone();
            merge::apply(&mut object, &merge_patch(&from, &to, &from));
            prop_assert_eq!(object, to);
        }
    }
}
