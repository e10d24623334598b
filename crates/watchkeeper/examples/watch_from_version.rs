//! A watch from a version delivers every change after it, deletions included. One without a version starts with the
//! existing objects, in no order, and cannot report deleted ones.
//!
//! 事件类型 "event", Pod名称 "pod".
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::{DynamicApi, Error, ResourceType};
use watchkeeper::meta::{PatchKind, ResourceVersion, WatchOptions};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();
    let mut first = None;
    for name in ["pod-1", "pod-2", "pod-3"] {
        let gates = json!([{"name": "example.com/wait"}]);
        let spec = json!({"schedulingGates": gates, "containers": [{"name": "c", "image": "c"}]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let created = pods.create(&pod).await?;
        first.get_or_insert(created.version());
    }
    let label = json!({"metadata": {"labels": {"app": "pod-1"}}});
    pods.patch("pod-1", PatchKind::Merge, &label).await?;
    pods.delete("pod-2").await?;

    println!("after the creation of pod-1:");
    show(&pods, first.unwrap_or_default(), 5).await?; // a deleted pod is first marked, then gone
    println!("without a version:");
    show(&pods, ResourceVersion::default(), 2).await?;
    sandbox.close().await?;
    Ok(())
}

/// Prints some events.
async fn show(pods: &DynamicApi, after: ResourceVersion, count: usize) -> Result<(), Error> {
    let options = WatchOptions {
        resource_version: after,
        ..Default::default()
    };
    let mut watch = pods.watch().with(&options).await?;
    for _ in 0..count {
        let Some(event) = watch.next().await.transpose()? else {
            break;
        };
        if let Some(pod) = event.object() {
            let (kind, name, version) = (event.kind(), pod.name(), pod.resource_version());
            println!("   事件类型: {kind:<8} Pod名称: {name:<8} ResourceVersion: {version}");
        }
    }
    Ok(())
}
