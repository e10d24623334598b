//! Selectors in queries and in objects.

use serde_json::{Value, json};

use crate::growth::{Call, Cluster, list, map};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The values of a selector that fit into a request head of 64 KiB.
const VALUES: usize = 1_500;

#[tokio::test]
async fn selectors_in_queries() {
    let mut cluster = Cluster::start().await;
    for index in 0..50 {
        let object = json!({
            "metadata": {"name": format!("p{index}"), "labels": {"a": format!("v{index}")}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        cluster.prepare(&Call::post(PODS, object)).await;
    }
    for operator in ["in", "notin"] {
        cluster
            .grows_in_proportion(operator, VALUES, |n| {
                let values: Vec<String> = (0..n).map(|index| format!("v{index}")).collect();
                Call::get(format!(
                    "{PODS}?labelSelector=a+{operator}+({})",
                    values.join(",")
                ))
            })
            .await;
    }
    cluster
        .grows_in_proportion("requirements", VALUES, |n| {
            let requirements: Vec<String> = (0..n).map(|index| format!("k{index}!=v")).collect();
            Call::get(format!("{PODS}?labelSelector={}", requirements.join(",")))
        })
        .await;
    cluster
        .grows_in_proportion("fields", VALUES, |n| {
            let requirements = vec!["metadata.name!=v"; n / 2];
            Call::get(format!("{PODS}?fieldSelector={}", requirements.join(",")))
        })
        .await;
}

/// Each requirement is looked up among all labels.
#[tokio::test]
async fn requirements_on_many_labels() {
    const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let mut cluster = Cluster::start().await;
    cluster
        .prepare(&Call::post(CONFIG_MAPS, json!({"metadata": {"name": "x"}})))
        .await;
    let labelled = |n: usize| {
        let labels = map(n, |index| (format!("k{index}"), json!("")));
        let patch = json!({"metadata": {"labels": labels}});
        Call::patch(format!("{CONFIG_MAPS}/x"), "application/merge-patch+json", patch)
    };
    cluster
        .grows_after("requirements on as many labels", VALUES, |n| {
            let requirements: Vec<String> = (0..n).map(|index| format!("!x{index}")).collect();
            let call = Call::get(format!("{CONFIG_MAPS}?labelSelector={}", requirements.join(",")));
            (vec![labelled(n)], call)
        })
        .await;
}

#[tokio::test]
async fn selectors_in_objects() {
    let mut cluster = Cluster::start().await;
    let deployment = |expressions: Value| {
        Call::try_post(
            "/apis/apps/v1/namespaces/default/deployments",
            json!({
                "metadata": {"name": "x"},
                "spec": {
                    "selector": {"matchLabels": {"a": "b"}, "matchExpressions": expressions},
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
            }),
        )
    };
    cluster
        .grows_in_proportion("values", 2_000, |n| {
            let values = list(n, |index| json!(format!("v{index}")));
            deployment(json!([{"key": "a", "operator": "NotIn", "values": values}]))
        })
        .await;
    cluster
        .grows_in_proportion("wrong values", 1_000, |n| {
            let values = list(n, |_| json!("not a value!"));
            deployment(json!([{"key": "a", "operator": "In", "values": values}]))
        })
        .await;
    cluster
        .grows_in_proportion("expressions", 1_000, |n| {
            deployment(list(
                n,
                |index| json!({"key": format!("k{index}"), "operator": "DoesNotExist"}),
            ))
        })
        .await;
}
