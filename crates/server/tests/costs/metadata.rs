//! Metadata: owners, finalizers, labels, annotations, managed fields.

use serde_json::{Value, json};

use crate::growth::{Call, Cluster, Item, list, map};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn with(field: &str, value: Value) -> Call {
    Call::try_post(CONFIG_MAPS, json!({"metadata": {"name": "x", field: value}}))
}

fn owner(index: usize) -> Value {
    let name = format!("owner-{index}");
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name})
}

fn controller(index: usize) -> Value {
    let mut owner = owner(index);
    owner["controller"] = json!(true);
    owner
}

#[tokio::test]
async fn owners() {
    let mut cluster = Cluster::start().await;
    let cases: [(&str, Item); 5] = [
        ("owners", owner),
        ("controllers", controller),
        ("equal owners", |_| owner(0)),
        ("owners without anything", |_| json!({})),
        (
            "events as owners",
            |index| json!({"apiVersion": "v1", "kind": "Event", "name": index.to_string(), "uid": "u"}),
        ),
    ];
    for (name, item) in cases {
        cluster
            .grows_in_proportion(name, 500, |n| with("ownerReferences", list(n, item)))
            .await;
    }
}

#[tokio::test]
async fn finalizers() {
    let mut cluster = Cluster::start().await;
    let cases: [(&str, Item); 4] = [
        ("finalizers", |index| json!(format!("example.com/{index}"))),
        ("equal finalizers", |_| json!("example.com/a")),
        ("wrong finalizers", |_| json!("")),
        ("contradictory finalizers", |index| {
            json!(["orphan", "foregroundDeletion"][index % 2])
        }),
    ];
    for (name, item) in cases {
        cluster
            .grows_in_proportion(name, 500, |n| with("finalizers", list(n, item)))
            .await;
    }
    let deleting = |n: usize| {
        let name = format!("{CONFIG_MAPS}/f{n}");
        let finalizers = list(n, |index| json!(format!("example.com/{index}")));
        let object = json!({"metadata": {"name": format!("f{n}"), "finalizers": finalizers}});
        let before = vec![
            Call::post(CONFIG_MAPS, object),
            Call::new(http::Method::DELETE, &name, ""),
        ];
        let others = list(n, |index| json!(format!("example.com/other-{index}")));
        let patch = json!({"metadata": {"finalizers": others}});
        (before, Call::patch(name, "application/merge-patch+json", patch))
    };
    cluster
        .grows_after("new finalizers of what is deleted", 1_000, deleting)
        .await;
}

#[tokio::test]
async fn labels_and_annotations() {
    let mut cluster = Cluster::start().await;
    for field in ["labels", "annotations"] {
        let entry = |index: usize| (format!("example.com/k{index}"), json!("v"));
        cluster
            .grows_in_proportion(field, 500, |n| with(field, map(n, entry)))
            .await;
        let wrong = |index: usize| (format!("!/{index}"), json!("not a label!"));
        cluster
            .grows_in_proportion(&format!("wrong {field}"), 500, |n| with(field, map(n, wrong)))
            .await;
        cluster
            .grows_in_proportion(&format!("a long value in {field}"), 100_000, |n| {
                with(field, json!({"a": "!".repeat(n)}))
            })
            .await;
        cluster
            .grows_in_proportion(&format!("a long key in {field}"), 50_000, |n| {
                with(field, json!({"!".repeat(n): "a"}))
            })
            .await;
    }
}

#[tokio::test]
async fn names() {
    let mut cluster = Cluster::start().await;
    for field in ["name", "generateName", "namespace", "uid"] {
        cluster
            .grows_in_proportion(&format!("a long {field}"), 50_000, |n| {
                with(field, json!("!".repeat(n)))
            })
            .await;
    }
}

#[tokio::test]
async fn managed_fields() {
    let mut cluster = Cluster::start().await;
    let entry = |manager: String, fields: Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    };
    cluster
        .grows_in_proportion("managers", 500, |n| {
            let fields = json!({"f:data": {"f:k": {}}});
            with(
                "managedFields",
                list(n, |index| entry(format!("m{index}"), fields.clone())),
            )
        })
        .await;
    cluster
        .grows_in_proportion("fields of a manager", 1_000, |n| {
            let fields = map(n, |index| (format!("f:k{index}"), json!({})));
            with(
                "managedFields",
                json!([entry("m".to_owned(), json!({"f:data": fields}))]),
            )
        })
        .await;
    cluster
        .grows_in_proportion("what cannot be printed in a manager's name", 1_000, |n| {
            with("managedFields", json!([entry("\u{1}".repeat(n), json!({}))]))
        })
        .await;
    cluster
        .grows_in_proportion("managers that do nothing known", 1_000, |n| {
            with(
                "managedFields",
                list(n, |_| json!({"operation": "?", "manager": "m"})),
            )
        })
        .await;
}

/// The body that becomes the largest tree for its size.
#[tokio::test]
async fn a_tree_of_values_has_a_limit() {
    const MAX_PEAK: i64 = 64 << 20;
    let mut cluster = Cluster::start().await;
    let item = r#"{"":0}"#;
    for (count, status) in [(38_000, 201), (42_000, 413), (400_000, 413)] {
        let items = vec![item; count].join(",");
        let body = format!(r#"{{"metadata":{{"name":"x"}},"unknown":[{items}]}}"#);
        for call in [
            Call::try_post(CONFIG_MAPS, &body),
            Call::try_post(CONFIG_MAPS, format!(" {body}")),
        ] {
            let (cost, answer) = cluster.send(&call).await;
            assert_eq!(cost.status, status, "{:.500}", String::from_utf8_lossy(&answer));
            assert!(cost.memory.peak < MAX_PEAK, "{count}: {cost:?}");
        }
        let patch = Call::patch(
            format!("{CONFIG_MAPS}/x"),
            "application/merge-patch+json",
            format!(" {body}"),
        );
        let (cost, _) = cluster.send(&patch).await;
        assert!(cost.memory.peak < MAX_PEAK, "{count}: {cost:?}");
        let yaml = Call {
            content_type: "application/yaml",
            ..Call::try_post(
                CONFIG_MAPS,
                format!("metadata: {{name: x}}\nunknown: [{items}]\n"),
            )
        };
        let (cost, answer) = cluster.send(&yaml).await;
        assert_eq!(cost.status, status, "{:.500}", String::from_utf8_lossy(&answer));
        assert!(cost.memory.peak < MAX_PEAK, "{count}: {cost:?}");
    }
}

#[tokio::test]
async fn bodies() {
    let mut cluster = Cluster::start().await;
    cluster
        .grows_in_proportion("unknown fields", 2_000, |n| {
            let mut object = map(n, |index| (format!("x{index}"), json!(1)));
            object["metadata"] = json!({"name": "x"});
            Call::try_post(CONFIG_MAPS, object)
        })
        .await;
    for strictness in ["Strict", "Warn"] {
        cluster
            .grows_in_proportion(&format!("fields that stand twice, {strictness}"), 2_000, |n| {
                let twice: Vec<String> = (0..n)
                    .map(|index| format!("\"k{index}\":\"\",\"k{index}\":\"\""))
                    .collect();
                let body = format!(
                    "{{\"metadata\":{{\"name\":\"x\"}},\"data\":{{{}}}}}",
                    twice.join(",")
                );
                Call::post(
                    format!("{CONFIG_MAPS}?dryRun=All&fieldValidation={strictness}"),
                    body,
                )
            })
            .await;
        cluster
            .grows_in_proportion(&format!("unknown fields in items, {strictness}"), 1_000, |n| {
                let owners = list(n, |index| json!({"uid": index.to_string(), "unknown": 1}));
                let body = json!({"metadata": {"name": "x", "ownerReferences": owners}});
                Call::post(
                    format!("{CONFIG_MAPS}?dryRun=All&fieldValidation={strictness}"),
                    body,
                )
            })
            .await;
    }
    cluster
        .grows_in_proportion("depth", 500, |n| {
            let body = format!(
                "{{\"metadata\":{{\"name\":\"x\"}},\"unknown\":{}{}}}",
                "[".repeat(n),
                "]".repeat(n)
            );
            Call::try_post(CONFIG_MAPS, body)
        })
        .await;
    cluster
        .grows_in_proportion("data", 2_000, |n| {
            let data = map(n, |index| (format!("k{index}"), json!("v")));
            Call::try_post(CONFIG_MAPS, json!({"metadata": {"name": "x"}, "data": data}))
        })
        .await;
    cluster
        .grows_in_proportion("wrong keys of data, in both maps", 1_000, |n| {
            let data = map(n, |index| (format!("!{index}"), json!("dmFsdWU=")));
            let object = json!({"metadata": {"name": "x"}, "data": data, "binaryData": data});
            Call::try_post(CONFIG_MAPS, object)
        })
        .await;
    let yaml = |n: usize| {
        let entries: String = (0..n).map(|index| format!("  k{index}: v\n")).collect();
        let body = format!("metadata: {{name: x}}\ndata:\n{entries}");
        Call {
            content_type: "application/yaml",
            ..Call::try_post(CONFIG_MAPS, body)
        }
    };
    cluster.grows_in_proportion("YAML", 1_000, yaml).await;
    let tags = |n: usize| {
        let directives: String = (0..n).map(|index| format!("%TAG !t{index}! tag:x\n")).collect();
        Call {
            content_type: "application/yaml",
            ..Call::try_post(CONFIG_MAPS, format!("{directives}---\nmetadata: {{name: x}}\n"))
        }
    };
    cluster.takes_linear_time("YAML directives", 2_000, tags).await;
}
