//! Filters of a watch: one namespace or all, labels, and the fields a resource supports.
//!
//! 事件类型 "event", 命名空间 "namespace", Pod名称 "pod".
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::{DynamicApi, ResourceType};
use watchkeeper::meta::{PatchKind, WatchOptions};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();
    for (name, id) in [("pod-1", "1"), ("pod-2", "2")] {
        let gates = json!([{"name": "example.com/wait"}]);
        let spec = json!({"schedulingGates": gates, "containers": [{"name": "c", "image": "c"}]});
        let labels = json!({"app": name, "id": id, "sandbox": sandbox.namespace()});
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        pods.create(&pod).await?;
    }
    let all = pods.clone().all_namespaces();
    let ours = format!("sandbox={}", sandbox.namespace());
    println!("all namespaces:");
    show(&all, &ours, "", 2).await?;
    println!("app=pod-1,id=1:");
    show(&pods, "app=pod-1,id=1", "", 1).await?;
    println!("app,id:");
    show(&pods, "app,id", "", 2).await?;
    println!("metadata.name=pod-2:");
    show(&pods, "", "metadata.name=pod-2", 1).await?;

    println!("an object that no longer matches is deleted, to this watch:");
    let mut watch = pods.watch().with(&selected("id=1", "")?).await?;
    watch.next().await.transpose()?;
    let changed = json!({"metadata": {"labels": {"id": "3"}}});
    pods.patch("pod-1", PatchKind::Merge, &changed).await?;
    if let Some(event) = watch.next().await.transpose()? {
        println!("   事件类型: {}", event.kind());
    }
    sandbox.close().await?;
    Ok(())
}

type Failure = Box<dyn std::error::Error>;

fn selected(labels: &str, fields: &str) -> Result<WatchOptions, Failure> {
    Ok(WatchOptions {
        label_selector: labels.parse()?,
        field_selector: fields.parse()?,
        ..Default::default()
    })
}

/// Prints some events.
async fn show(pods: &DynamicApi, labels: &str, fields: &str, count: usize) -> Result<(), Failure> {
    let mut watch = pods.watch().with(&selected(labels, fields)?).await?;
    for _ in 0..count {
        let Some(event) = watch.next().await.transpose()? else {
            break;
        };
        if let Some(pod) = event.object() {
            let (kind, namespace, name) = (event.kind(), pod.namespace(), pod.name());
            println!("   事件类型: {kind:<8} 命名空间: {namespace:<16} Pod名称: {name}");
        }
    }
    Ok(())
}
