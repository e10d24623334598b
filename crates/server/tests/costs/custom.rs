//! Custom kinds: their definitions and objects.

use serde_json::{Value, json};

use crate::growth::{Call, Cluster, Item, list, map};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition whose spec has this schema.
fn definition(plural: &str, spec: Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": plural.to_uppercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec},
            }}}],
        },
    })
}

fn defined(spec: Value) -> Call {
    Call::try_post(DEFINITIONS, definition("things", spec))
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[tokio::test]
async fn schemas() {
    let mut cluster = Cluster::start().await;
    let cases: [(&str, Item); 8] = [
        (
            "patterns that are too large",
            |index| json!({"type": "string", "pattern": format!("\\pL{{{}}}", 500 + index)}),
        ),
        ("properties", |_| json!({"type": "string"})),
        ("properties without a type", |_| json!({})),
        (
            "properties of no known type",
            |_| json!({"type": "?", "x-kubernetes-list-type": "?"}),
        ),
        (
            "patterns",
            |index| json!({"type": "string", "pattern": format!("^[a-z]{index}$")}),
        ),
        ("defaults", |index| json!({"type": "integer", "default": index})),
        ("wrong defaults", |_| json!({"type": "integer", "default": "no"})),
        (
            "junctions",
            |_| json!({"type": "string", "anyOf": [{"minLength": 1}, {"maxLength": 2}], "not": {"pattern": "a"}}),
        ),
    ];
    for (name, property) in cases {
        cluster
            .grows_in_proportion(name, 100, |n| {
                defined(object(map(n, |index| (format!("p{index}"), property(index)))))
            })
            .await;
    }
    cluster
        .grows_in_proportion("values", 500, |n| {
            let values = list(n, |index| json!(format!("v{index}")));
            defined(object(json!({"a": {"type": "string", "enum": values}})))
        })
        .await;
    cluster
        .grows_in_proportion("required fields", 500, |n| {
            let required = list(n, |index| json!(format!("p{index}")));
            let properties = map(n, |index| (format!("p{index}"), json!({"type": "string"})));
            defined(json!({"type": "object", "required": required, "properties": properties}))
        })
        .await;
    cluster
        .grows_in_proportion("keys of a list", 500, |n| {
            let keys = list(n, |index| json!(format!("p{index}")));
            let properties = map(n, |index| (format!("p{index}"), json!({"type": "string"})));
            let items = json!({"type": "object", "required": keys, "properties": properties});
            defined(
                json!({"type": "array", "items": items, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys}),
            )
        })
        .await;
    cluster
        .grows_in_proportion("expressions", 25, |n| {
            let rules = list(n, |index| json!({"rule": format!("self.a != 'x{index}'")}));
            let mut spec = object(json!({"a": {"type": "string", "maxLength": 10}}));
            spec["x-kubernetes-validations"] = rules;
            defined(spec)
        })
        .await;
    cluster
        .grows_in_proportion("a long expression", 100, |n| {
            let rule = vec!["self.a != 'x'"; n].join(" && ");
            let mut spec = object(json!({"a": {"type": "string", "maxLength": 10}}));
            spec["x-kubernetes-validations"] = json!([{"rule": rule}]);
            defined(spec)
        })
        .await;
    cluster
        .grows_in_proportion("depth", 15, |n| {
            let deep = (0..n).fold(json!({"type": "string"}), |inner, _| object(json!({"a": inner})));
            defined(deep)
        })
        .await;
}

#[tokio::test]
async fn names_and_versions() {
    let mut cluster = Cluster::start().await;
    let versions = |n| {
        let mut definition = definition("things", object(json!({})));
        let first = definition["spec"]["versions"][0].clone();
        definition["spec"]["versions"] = list(n, |index| {
            let mut version = first.clone();
            version["name"] = json!(format!("v{}", index + 1));
            version["storage"] = json!(index == 0);
            version
        });
        Call::try_post(DEFINITIONS, definition)
    };
    // As many as are accepted, and more.
    cluster.grows_in_proportion("versions", 8, versions).await;
    cluster
        .grows_in_proportion("too many versions", 33, versions)
        .await;
    for names in ["shortNames", "categories"] {
        cluster
            .grows_in_proportion(names, 500, |n| {
                let mut definition = definition("things", object(json!({})));
                definition["spec"]["names"][names] = list(n, |index| json!(format!("n{index}")));
                Call::try_post(DEFINITIONS, definition)
            })
            .await;
    }
    cluster
        .grows_in_proportion("columns", 250, |n| {
            let mut definition = definition("things", object(json!({})));
            definition["spec"]["versions"][0]["additionalPrinterColumns"] = list(n, |index| {
                json!({"name": format!("c{index}"), "type": "string", "jsonPath": format!(".spec.c{index}")})
            });
            Call::try_post(DEFINITIONS, definition)
        })
        .await;
    cluster
        .grows_in_proportion("fields to select by", 250, |n| {
            let properties = map(n, |index| (format!("c{index}"), json!({"type": "string"})));
            let mut definition = definition("things", object(properties));
            definition["spec"]["versions"][0]["selectableFields"] =
                list(n, |index| json!({"jsonPath": format!(".spec.c{index}")}));
            Call::try_post(DEFINITIONS, definition)
        })
        .await;
}

/// A written definition is compared with all others.
#[tokio::test]
async fn others_of_the_same_group() {
    let mut cluster = Cluster::start().await;
    let with_names = |plural: &str, names: usize| {
        let mut definition = definition(plural, object(json!({})));
        definition["spec"]["names"]["shortNames"] = list(names, |index| json!(format!("{plural}{index}")));
        Call::post(DEFINITIONS, definition)
    };
    let mut size = 0;
    let mut costs = Vec::new();
    for sizes in [8, 16, 32] {
        while size < sizes {
            size += 1;
            cluster.prepare(&with_names(&format!("k{size}x"), 200)).await;
        }
        let (cost, _) = cluster.send(&with_names(&format!("l{size}x"), 200)).await;
        costs.push(cost.memory.allocations);
        size += 1;
    }
    assert!(costs[2] <= 6 * costs[0], "{costs:?}");
}

#[tokio::test]
async fn objects() {
    let mut cluster = Cluster::start().await;
    let text = json!({"type": "string", "maxLength": 2});
    let spec = object(json!({
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "map": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": text}},
        },
        "any": {"type": "array", "items": {"type": "integer", "enum": [1, 2, 3], "maximum": 2}},
        "few": {"type": "array", "items": {"type": "string", "enum": list(500, |index| json!(format!("v{index}")))}},
        "table": {"type": "object", "additionalProperties": text},
        "either": {"type": "array", "items": {"type": "string", "oneOf": [{"minLength": 3}, {"maxLength": 1}]}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }));
    cluster
        .prepare(&Call::post(DEFINITIONS, definition("things", spec)))
        .await;
    let thing = |field: &str, value: Value| {
        Call::try_post(
            "/apis/example.com/v1/namespaces/default/things",
            json!({
                "apiVersion": "example.com/v1", "kind": "THINGS", "metadata": {"name": "x"},
                "spec": {field: value},
            }),
        )
    };
    let cases: [(&str, &str, Item); 7] = [
        ("items of a set", "set", |index| json!(index.to_string())),
        ("equal items of a set", "set", |_| json!("a")),
        (
            "items of a map",
            "map",
            |index| json!({"k": index.to_string(), "v": "a"}),
        ),
        ("equal items of a map", "map", |_| json!({"k": "a", "v": "a"})),
        ("items of no key", "map", |_| json!({})),
        ("wrong items", "any", |_| json!("x")),
        ("items that are neither", "either", |_| json!("ab")),
    ];
    for (name, field, item) in cases {
        cluster
            .grows_in_proportion(name, 500, |n| thing(field, list(n, item)))
            .await;
    }
    cluster
        .takes_linear_time("items that are none of many values", 2_000, |n| {
            thing("few", list(n, |_| json!("x")))
        })
        .await;
    cluster
        .grows_in_proportion("entries", 500, |n| {
            thing("table", map(n, |index| (format!("k{index}"), json!("too long"))))
        })
        .await;
    cluster
        .grows_in_proportion("a long key with many errors", 2_000, |n| {
            let places: Value = json!({"k".repeat(n): {}});
            let mut entries = map(n, |index| (format!("k{index}"), json!(1)));
            entries["long"] = places;
            thing("table", entries)
        })
        .await;
    cluster
        .grows_in_proportion("unknown fields", 500, |n| {
            thing(
                "free",
                map(n, |index| (format!("k{index}"), json!({"a": [index]}))),
            )
        })
        .await;
    cluster
        .grows_in_proportion("pruned fields", 500, |n| {
            let call = thing("any", json!([]));
            let mut object: Value = serde_json::from_str(&call.body).unwrap();
            object["spec"] = map(n, |index| (format!("x{index}"), json!(1)));
            Call {
                body: object.to_string(),
                ..call
            }
        })
        .await;
}

/// The most memory that a request may take whose definition makes it larger.
const MAX_PEAK: i64 = 32 << 20;

fn things() -> &'static str {
    "/apis/example.com/v1/namespaces/default/things"
}

/// A definition of a list whose items have this schema.
fn with_items(item: Value) -> Value {
    definition(
        "things",
        object(json!({"list": {"type": "array", "items": item}})),
    )
}

fn thing_with_items(n: usize) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "THINGS", "metadata": {"name": "x"},
        "spec": {"list": list(n, |_| json!({}))},
    })
}

/// Short items may have long defaults, and so may objects that were stored before there were any.
#[tokio::test]
async fn defaults_are_limited() {
    const ITEMS: usize = 5_000;
    let mut cluster = Cluster::start().await;
    cluster
        .prepare(&Call::post(DEFINITIONS, with_items(object(json!({})))))
        .await;
    cluster
        .prepare(&Call::post(things(), thing_with_items(ITEMS)))
        .await;
    let nested = map(100, |index| (format!("k{index}"), json!({})));
    for default in [json!("x".repeat(100_000)), nested] {
        let mut item = object(json!({"long": {"x-kubernetes-preserve-unknown-fields": true}}));
        item["properties"]["long"]["default"] = default;
        let path = format!("{DEFINITIONS}/things.example.com");
        let patch = json!({"spec": with_items(item)["spec"]});
        cluster
            .prepare(&Call::patch(path, "application/merge-patch+json", patch))
            .await;
        let read = Call::get(format!("{}/x", things()));
        for (call, status) in [
            (Call::try_post(things(), thing_with_items(ITEMS)), 413),
            (read, 500),
            (Call::get(things()), 500),
        ] {
            let (cost, answer) = cluster.send(&call).await;
            assert_eq!(cost.status, status, "{:.500}", String::from_utf8_lossy(&answer));
            assert!(cost.memory.peak < MAX_PEAK, "{cost:?}");
        }
        let mut few = thing_with_items(10);
        few["metadata"]["name"] = json!("few");
        cluster.prepare(&Call::try_post(things(), few)).await;
    }
}

#[tokio::test]
async fn rows_are_limited() {
    let mut cluster = Cluster::start().await;
    let mut definition = definition("things", object(json!({"text": {"type": "string"}})));
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = list(1_000, |index| {
        let path = [".spec.text", "..*"][index % 2];
        json!({"name": format!("c{index}"), "type": "string", "jsonPath": path})
    });
    cluster.prepare(&Call::post(DEFINITIONS, definition)).await;
    let thing = json!({
        "apiVersion": "example.com/v1", "kind": "THINGS", "metadata": {"name": "x"},
        "spec": {"text": "x".repeat(1_000_000)},
    });
    cluster.prepare(&Call::post(things(), thing)).await;
    let table = Call {
        header: Some((
            "accept",
            "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned(),
        )),
        ..Call::get(things())
    };
    let (cost, answer) = cluster.send(&table).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["rows"][0]["cells"][1].as_str().unwrap().len(), 1_000_000);
    assert!(cost.answer_bytes < 4_000_000, "{cost:?}");
    assert!(cost.memory.peak < MAX_PEAK, "{cost:?}");
}

/// The allocations of forty installs, after so many others.
async fn installs(cluster: &mut Cluster, from: usize, group: impl Fn(usize) -> String) -> u64 {
    let mut allocations = 0;
    for index in from..from + 40 {
        let properties = map(20, |index| (format!("p{index}"), json!({"type": "string"})));
        let mut definition = definition(&format!("k{index}x"), object(properties));
        let group = group(index);
        definition["metadata"]["name"] = json!(format!("k{index}x.{group}"));
        definition["spec"]["group"] = json!(group);
        let (cost, answer) = cluster.send(&Call::post(DEFINITIONS, definition)).await;
        assert_eq!(cost.status, 201, "{}", String::from_utf8_lossy(&answer));
        allocations += cost.memory.allocations;
        // Whoever asks next finds it, which is when the catalog of the server is put together.
        let path = format!("/apis/{group}/v1/namespaces/default/k{index}x");
        let (cost, _) = cluster.send(&Call::get(path)).await;
        assert_eq!(cost.status, 200);
        allocations += cost.memory.allocations;
    }
    allocations
}

/// Installing five hundred kinds takes five hundred times as much as installing one.
#[tokio::test]
async fn a_kind_costs_the_same_however_many_there_are() {
    const LAST: usize = 480;
    let one_group = |_: usize| "example.com".to_owned();
    let own_group = |index: usize| format!("g{index}.example.com");
    for (name, group) in [
        ("one group", &one_group as &dyn Fn(usize) -> String),
        ("groups of their own", &own_group),
    ] {
        let mut cluster = Cluster::start().await;
        let mut costs = Vec::new();
        for from in (0..=LAST).step_by(40) {
            costs.push(installs(&mut cluster, from, group).await);
        }
        let (early, late) = (costs[1], *costs.last().unwrap());
        assert!(late < early * 3 / 2, "{name}: {costs:?}");
    }
}
