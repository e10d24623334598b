//! The scale of a custom kind, at the paths of its definition.

use serde_json::{Value, json};
use watchkeeper_registry::{Body, Format, PatchKind};

use super::cluster::{Cluster, context, definition, free, widget};

async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    let mut scaled = definition(free());
    scaled["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = free();
    scaled["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.size.wanted",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }});
    cluster.define(scaled).await.unwrap();
    cluster
        .create(widget("a", json!({"size": {"wanted": 2}})))
        .await
        .unwrap();
    cluster
}

#[tokio::test]
async fn a_scale_reads_and_writes_the_values_at_its_paths() {
    let cluster = cluster().await;
    let widgets = cluster.widgets();
    let scale = cluster.registry.scale(&widgets, "default", "a").await.unwrap();
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"], json!({"replicas": 0}));

    let mut wanted: Value = scale.clone();
    wanted["spec"]["replicas"] = json!(5);
    let bytes = wanted.to_string();
    let body = Body {
        format: Format::Json,
        bytes: bytes.as_bytes(),
    };
    let context = context();
    let updated = cluster
        .registry
        .update_scale(&widgets, "default", "a", body, &context);
    assert_eq!(updated.await.unwrap()["spec"]["replicas"], 5);
    let stale = cluster
        .registry
        .update_scale(&widgets, "default", "a", body, &context);
    assert!(stale.await.unwrap_err().is_conflict());
    let bytes =
        br#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":6}}"#;
    let body = Body { bytes, ..body };
    let unconditional = cluster
        .registry
        .update_scale(&widgets, "default", "a", body, &context);
    assert_eq!(unconditional.await.unwrap()["spec"]["replicas"], 6);
    let patch = br#"{"spec":{"replicas":7}}"#;
    let patched = cluster
        .registry
        .patch_scale(&widgets, "default", "a", (PatchKind::Merge, patch), &context);
    patched.await.unwrap();
    let object = cluster.get_in(&widgets, "default", "a").await.unwrap();
    assert_eq!(object["spec"], json!({"size": {"wanted": 7}}));
    assert_eq!(object["metadata"]["generation"], 4);
}
