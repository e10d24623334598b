//! Patches: JSON, merge, strategic and apply.

use serde_json::{Value, json};

use crate::growth::{Call, Cluster, Item, list, map};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn with_config_map() -> Cluster {
    let mut cluster = Cluster::start().await;
    let object = json!({"metadata": {"name": "x"}, "data": {"a": "b"}});
    cluster.prepare(&Call::post(CONFIG_MAPS, object)).await;
    cluster
}

#[tokio::test]
async fn json_patches() {
    let mut cluster = with_config_map().await;
    let path = format!("{CONFIG_MAPS}/x?dryRun=All");
    let cases: [(&str, Item); 5] = [
        (
            "additions",
            |index| json!({"op": "add", "path": format!("/data/k{index}"), "value": "v"}),
        ),
        (
            "tests",
            |_| json!({"op": "test", "path": "/data/a", "value": "b"}),
        ),
        (
            "replacements",
            |_| json!({"op": "replace", "path": "/data/a", "value": "c"}),
        ),
        ("moves", |index| {
            let (from, to) = [("/data/a", "/data/b"), ("/data/b", "/data/a")][index % 2];
            json!({"op": "move", "from": from, "path": to})
        }),
        (
            "copies",
            |index| json!({"op": "copy", "from": "/data/a", "path": format!("/data/c{index}")}),
        ),
    ];
    for (name, operation) in cases {
        cluster
            .grows_in_proportion(name, 1_000, |n| Call::patch(&path, JSON, list(n, operation)))
            .await;
    }
    let appended = |place: &'static str| {
        move |index: usize| {
            let owner = json!({"apiVersion": "v1", "kind": "A", "name": "n", "uid": index.to_string()});
            match index {
                0 => json!({"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}),
                _ => {
                    json!({"op": "add", "path": format!("/metadata/ownerReferences/{place}"), "value": owner})
                }
            }
        }
    };
    for place in ["-", "0"] {
        cluster
            .grows_in_proportion(&format!("items at {place}"), 500, |n| {
                Call::patch(&path, JSON, list(n, appended(place)))
            })
            .await;
    }
}

/// Each operation would pass a long list that the patch has added.
#[tokio::test]
async fn json_patches_of_long_lists() {
    let mut cluster = with_config_map().await;
    let path = format!("{CONFIG_MAPS}/x?dryRun=All");
    let cases: [(&str, Item); 3] = [
        (
            "insertions",
            |_| json!({"op": "add", "path": "/long/0", "value": 0}),
        ),
        ("removals", |_| json!({"op": "remove", "path": "/long/0"})),
        ("values that are moved down and up", |index| {
            let (from, to) = [("/long", "/data/long"), ("/data/long", "/long")][index % 2];
            json!({"op": "move", "from": from, "path": to})
        }),
    ];
    for (name, operation) in cases {
        let patch = |n: usize| {
            let long = json!({"op": "add", "path": "/long", "value": vec![0; 50 * n]});
            let operations = list(n + 1, |index| match index {
                0 => long.clone(),
                index => operation(index - 1),
            });
            Call::patch(&path, JSON, operations)
        };
        cluster.takes_linear_time(name, 1_000, patch).await;
    }
}

#[tokio::test]
async fn merge_patches() {
    let mut cluster = with_config_map().await;
    let path = format!("{CONFIG_MAPS}/x?dryRun=All");
    for kind in [MERGE, STRATEGIC] {
        cluster
            .grows_in_proportion(&format!("entries, {kind}"), 1_000, |n| {
                Call::patch(
                    &path,
                    kind,
                    json!({"data": map(n, |index| (format!("k{index}"), json!("v")))}),
                )
            })
            .await;
    }
}

#[tokio::test]
async fn strategic_patches() {
    let mut cluster = Cluster::start().await;
    let pod = |n: usize| {
        let env = list(n, |index| json!({"name": format!("V{index}"), "value": "v"}));
        json!({"metadata": {"name": format!("p{n}")}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}})
    };
    let patched = |n: usize, item: &dyn Fn(usize) -> Value| {
        let env = list(n, item);
        let patch = json!({"spec": {"containers": [{"name": "c", "env": env}]}});
        Call::patch(format!("{PODS}/p{n}?dryRun=All"), STRATEGIC, patch)
    };
    cluster
        .grows_after("merged items", 500, |n| {
            let call = patched(
                n,
                &|index| json!({"name": format!("V{}", n - 1 - index), "value": "v"}),
            );
            (vec![Call::post(PODS, pod(n))], call)
        })
        .await;
    cluster
        .grows_after("added items", 510, |n| {
            let call = patched(n, &|index| json!({"name": format!("W{index}"), "value": "v"}));
            (vec![Call::post(PODS, pod(n))], call)
        })
        .await;
    cluster
        .grows_after("deleted items", 520, |n| {
            let call = patched(
                n,
                &|index| json!({"name": format!("V{index}"), "$patch": "delete"}),
            );
            (vec![Call::post(PODS, pod(n))], call)
        })
        .await;
    cluster
        .grows_after("items that mean the same one", 1_010, |n| {
            let change = json!({"name": "c", "env": [{"name": "V0", "value": "w"}]});
            let patch = json!({"spec": {"containers": list(n, |_| change.clone())}});
            let path = format!("{PODS}/p{n}?dryRun=All");
            (
                vec![Call::post(PODS, pod(n))],
                Call::patch(path, STRATEGIC, patch),
            )
        })
        .await;
    cluster
        .grows_after("items in another order", 530, |n| {
            let order = list(n, |index| json!({"name": format!("V{}", n - 1 - index)}));
            let container = json!({"name": "c", "$setElementOrder/env": order});
            let path = format!("{PODS}/p{n}?dryRun=All");
            let patch = json!({"spec": {"containers": [container]}});
            (
                vec![Call::post(PODS, pod(n))],
                Call::patch(path, STRATEGIC, patch),
            )
        })
        .await;
}

#[tokio::test]
async fn applies() {
    let mut cluster = Cluster::start().await;
    let config_map = |n: usize, value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("x{n}")},
            "data": map(n, |index| (format!("k{index}"), json!(value))),
        })
    };
    let path = |n: usize, manager: &str| format!("{CONFIG_MAPS}/x{n}?fieldManager={manager}");
    cluster
        .grows_after("conflicts", 500, |n| {
            let first = Call::patch(path(n, "one"), APPLY, config_map(n, "v"));
            (
                vec![first],
                Call::patch(path(n, "two"), APPLY, config_map(n, "w")),
            )
        })
        .await;
    cluster
        .grows_after("shared fields", 510, |n| {
            let first = Call::patch(path(n, "one"), APPLY, config_map(n, "v"));
            (
                vec![first],
                Call::patch(path(n, "two") + "&dryRun=All", APPLY, config_map(n, "v")),
            )
        })
        .await;
    let pod = |n: usize, shift: usize| {
        let env = list(
            n,
            |index| json!({"name": format!("V{}", index + shift), "value": "v"}),
        );
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("q{n}")},
            "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
        })
    };
    cluster
        .grows_after("items", 300, |n| {
            let path = format!("{PODS}/q{n}?fieldManager=one");
            let first = Call::patch(&path, APPLY, pod(n, 0));
            (
                vec![first],
                Call::patch(path + "&dryRun=All", APPLY, pod(n, n / 2)),
            )
        })
        .await;
}
