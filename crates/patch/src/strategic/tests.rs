use serde_json::json;

use super::*;

fn patched(live: Value, patch: Value) -> Result<Value, StrategicError> {
    let schema = Schema::builtin();
    let root = schema.kind("v1", "Pod").unwrap();
    let (Value::Object(mut live), Value::Object(patch)) = (live, patch) else {
        unreachable!()
    };
    apply(schema, root, &mut live, patch).map(|()| Value::Object(live))
}

fn containers(names: &str) -> Value {
    let containers: Vec<Value> = names
        .chars()
        .map(|name| json!({"name": name.to_string()}))
        .collect();
    json!({"spec": {"containers": containers}})
}

fn names(pod: &Value) -> String {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    containers
        .iter()
        .map(|container| container["name"].as_str().unwrap())
        .collect()
}

fn check_order_of(live: &str, patch: Value, result: &str) {
    assert_eq!(
        names(&patched(containers(live), json!({"spec": patch})).unwrap()),
        result
    );
}

/// Comparing all pairs of items would take so long here that the test would time out.
#[test]
fn long_lists_merge_quickly() {
    let items = |range: std::ops::Range<u32>| range.map(|number| number.to_string()).collect::<Vec<_>>();
    let names = |range| -> Value { items(range).iter().map(|name| json!({"name": name})).collect() };
    let schema = Schema::builtin();
    let root = schema.kind("v1", "Pod").unwrap();
    let mut pod = json!({
        "metadata": {"finalizers": items(0..20_000)},
        "spec": {"containers": names(0..20_000)},
    });
    let patch = json!({
        "metadata": {"finalizers": items(10_000..30_000)},
        "spec": {"containers": names(10_000..30_000)},
    });
    let (Value::Object(fields), Value::Object(patch)) = (&mut pod, patch) else {
        unreachable!("both are objects");
    };
    apply(schema, root, fields, patch).unwrap();
    assert_eq!(pod["metadata"]["finalizers"], json!(items(0..30_000)));
    assert_eq!(pod["spec"]["containers"], names(0..30_000));
}

#[test]
fn items_merge_by_their_key() {
    let live = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "args": ["x"]}]}});
    let patch = json!({"spec": {"containers": [{"name": "b", "image": "2", "args": null}]}});
    assert_eq!(
        patched(live, patch).unwrap(),
        json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}})
    );
}

#[test]
fn the_order_is_the_patchs_then_the_servers() {
    check_order_of("abc", containers("cd")["spec"].clone(), "abcd");
    check_order_of("abc", containers("ca")["spec"].clone(), "bca");
    let order = |names: &str| containers(names)["spec"]["containers"].clone();
    check_order_of("ac", json!({"$setElementOrder/containers": order("ca")}), "ca");
    check_order_of(
        "ca",
        json!({"$setElementOrder/containers": order("nca"), "containers": order("n")}),
        "nca",
    );
}

#[test]
fn directives_in_lists() {
    let item = |name: &str, directive: &str| json!({"name": name, "$patch": directive});
    check_order_of("abc", json!({"containers": [item("b", "delete")]}), "ac");
    check_order_of("abc", json!({"containers": [item("z", "delete")]}), "abc");
    check_order_of(
        "abc",
        json!({"containers": [{"$patch": "replace"}, {"name": "o"}]}),
        "o",
    );
}

#[test]
fn directives_in_maps() {
    let check = |live: Value, patch: Value, result: Value| {
        let whole = |selector: Value| json!({"spec": {"nodeSelector": selector}});
        assert_eq!(patched(whole(live), whole(patch)).unwrap(), whole(result));
    };
    check(
        json!({"a": "1"}),
        json!({"$patch": "replace", "z": "3"}),
        json!({"z": "3"}),
    );
    check(json!({"a": "1"}), json!({"$patch": "delete"}), json!({}));
    let selector = json!({"spec": {"nodeSelector": {"$patch": "replace", "z": "3"}}});
    let patched_none = patched(json!({"spec": {}}), selector).unwrap();
    assert_eq!(patched_none, json!({"spec": {}}), "there is nothing to replace");
    check(
        json!({"a": "1", "b": "2"}),
        json!({"$retainKeys": ["b"], "b": "3"}),
        json!({"b": "3"}),
    );
}

#[test]
fn scalars_in_lists() {
    let with = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let check = |patch: Value, result: Value| {
        let live = with(json!(["one", "two"]));
        assert_eq!(patched(live, json!({"metadata": patch})).unwrap(), with(result));
    };
    check(
        json!({"finalizers": ["three", "two"]}),
        json!(["three", "one", "two"]),
    );
    check(
        json!({"$deleteFromPrimitiveList/finalizers": ["two"]}),
        json!(["one"]),
    );
}

#[test]
fn bad_patches_are_named() {
    let check = |spec: Value, text: &str| {
        assert_eq!(
            patched(containers("ac"), json!({"spec": spec}))
                .unwrap_err()
                .to_string(),
            text
        );
    };
    check(
        json!({"containers": [{"image": "x"}]}),
        "map: map[image:x] does not contain declared merge key: name",
    );
    check(
        json!({
            "$setElementOrder/containers": [{"name": "a"}],
            "containers": [{"name": "c", "image": "i10"}],
        }),
        "The order in patch list:\n[map[image:i10 name:c]]\n doesn't match $setElementOrder list:\n\
         [map[name:a]]\n",
    );
    let retain_keys = "invalid patch format of retainKeys";
    check(
        json!({"$retainKeys": ["containers"], "nodeName": "x"}),
        retain_keys,
    );
    check(json!({"$retainKeys": "containers"}), retain_keys);
    check(
        json!({"$setElementOrder/containers": "a"}),
        "expected a []interface {}, but received a string",
    );
    check(
        json!({"$setElementOrder/containers": [], "containers": {}}),
        "expected a []interface {}, but received a map[string]interface {}",
    );
    check(
        json!({"$patch": "other", "nodeName": "x"}),
        "unknown patch type: other in map: map[$patch:other nodeName:x]",
    );
}

#[test]
fn bad_items_of_lists_are_named() {
    let check = |items: Value, text: &str| {
        let patch = json!({"spec": {"containers": items}});
        let error = patched(containers("a"), patch).unwrap_err();
        assert_eq!(error.to_string(), text);
    };
    check(
        json!([{"$patch": "delete", "image": "x"}]),
        "map: map[$patch:delete image:x] does not contain declared merge key: name",
    );
    check(
        json!([{"$patch": "merge", "name": "a"}]),
        "merging lists cannot yet be specified in the patch",
    );
    check(
        json!([{"$patch": "other", "name": "a"}]),
        "unknown patch type: other in map: map[$patch:other name:a]",
    );
    check(
        json!(["b", 1]),
        "list element types are not identical: [[map[name:a]] [b 1]]",
    );
    let live = json!({"metadata": {"finalizers": [["a"]]}});
    assert_eq!(
        patched(live.clone(), live).unwrap_err(),
        StrategicError::ListOfLists
    );
}

#[test]
fn deletions_of_other_types_change_nothing() {
    let live = json!({"metadata": {"finalizers": ["one"]}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "one"}});
    assert_eq!(patched(live.clone(), patch).unwrap(), live);
}

#[test]
fn an_item_may_not_be_merged_again_and_again() {
    let env: Vec<Value> = (0..2_000)
        .map(|number| json!({"name": number.to_string()}))
        .collect();
    let live = json!({"spec": {"containers": [{"name": "a", "env": env, "args": vec!["x"; 5_000]}]}});
    let patch = |times: usize, change: Value| json!({"spec": {"containers": vec![change; times]}});
    for change in [
        json!({"name": "a", "env": [{"name": "0", "value": "x"}]}),
        json!({"name": "a", "$deleteFromPrimitiveList/args": []}),
    ] {
        assert!(patched(live.clone(), patch(10, change.clone())).is_ok());
        let refused = patched(live.clone(), patch(5_000, change));
        assert_eq!(refused, Err(StrategicError::TooLarge));
    }
}

#[test]
fn an_empty_list_stays_when_its_order_is_empty() {
    let live = containers("");
    let order = json!({"spec": {"$setElementOrder/containers": []}});
    assert_eq!(patched(live.clone(), order).unwrap(), live);
}
