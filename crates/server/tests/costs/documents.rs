//! OpenAPI documents, which many clients request at start.

use serde_json::Value;

use crate::growth::{Call, Cluster, Cost};

/// A cached document costs less than this part of generating it.
const PART: u64 = 10;

fn assert_cheap(cheap: &Cost, made: &Cost) {
    assert!(
        cheap.memory.allocations < made.memory.allocations / PART,
        "{cheap:?} {made:?}"
    );
}

#[tokio::test]
async fn a_document_is_generated_once() {
    let mut cluster = Cluster::start().await;
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"] {
        let (made, document) = cluster.send(&Call::get(path)).await;
        let (found, again) = cluster.send(&Call::get(path)).await;
        assert_eq!(document, again, "{path}");
        assert_cheap(&found, &made);
    }
}

#[tokio::test]
async fn a_document_cached_by_the_client_is_not_generated() {
    let mut cluster = Cluster::start().await;
    let index: Value = serde_json::from_slice(&cluster.prepare(&Call::get("/openapi/v3")).await).unwrap();
    let address = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let (_, hash) = address.split_once("?hash=").unwrap();
    let known = Call {
        header: Some(("if-none-match", format!("\"{hash}\""))),
        ..Call::get("/openapi/v3/api/v1")
    };
    let (known, _) = cluster.send(&known).await;
    let (made, _) = cluster.send(&Call::get("/openapi/v3/api/v1")).await;
    assert_eq!((known.status, made.status), (304, 200));
    assert_cheap(&known, &made);
}

#[tokio::test]
async fn a_new_kind_is_in_the_next_document() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut cluster = Cluster::start().await;
    let before = cluster.prepare(&Call::get("/openapi/v3")).await;
    let definition = serde_json::json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    cluster.prepare(&Call::post(DEFINITIONS, definition)).await;
    assert_ne!(before, cluster.prepare(&Call::get("/openapi/v3")).await);
    cluster
        .prepare(&Call::get("/openapi/v3/apis/example.com/v1"))
        .await;
}
