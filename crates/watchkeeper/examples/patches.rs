//! The four patches: JSON, merge, strategic merge and apply. None of them needs to read the object first.
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use watchkeeper::meta::PatchKind;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let namespaces = sandbox.client().api::<Namespace>();
    let name = sandbox.namespace();

    let patches = [
        // RFC 6902: operations on paths. `add`, `replace`, `remove`, `move`, `copy` and `test`.
        (
            PatchKind::Json,
            json!([{"op": "add", "path": "/metadata/labels/a", "value": "c"}]),
        ),
        // RFC 7386: named fields change, null removes a field, and lists are replaced as a whole.
        (PatchKind::Merge, json!({"metadata": {"labels": {"a": "f"}}})),
        // Kubernetes' own, and kubectl's default: like merge, but lists are merged by the keys of their items.
        (
            PatchKind::Strategic,
            json!({"metadata": {"labels": {"a": null, "b": "g"}}}),
        ),
    ];
    for (kind, patch) in patches {
        match namespaces.patch(name, kind, &patch).await {
            Ok(patched) => println!("Patch namespace success: {name} {:?}", patched.metadata.labels),
            Err(error) => println!("Patch namespace failed: {name}: {error}"),
        }
    }

    // Creates the object if it is missing, and owns the fields it states.
    let wanted = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("c".to_owned(), "h".to_owned())].into()),
            ..Default::default()
        },
        ..Default::default()
    };
    match namespaces.apply(&wanted, "example").await {
        Ok(applied) => println!("Apply namespace success: {name} {:?}", applied.metadata.labels),
        Err(error) => println!("Apply namespace failed: {name}: {error}"),
    }
    sandbox.close().await?;
    Ok(())
}
