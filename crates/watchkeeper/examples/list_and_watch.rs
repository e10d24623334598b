//! Lists pods, then watches from exactly that version: changes in between are neither missed nor seen twice.
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::{WatchEventKind, WatchOptions};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();
    let spec = json!({"containers": [{"name": "test-container", "image": "nginx:latest"}]});
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": spec});
    pods.create(&pod("test-pod")).await?;

    let list = pods.list().await?;
    for pod in &list.items {
        println!("{}", pod.name());
    }
    pods.create(&pod("test-pod2")).await?;
    let options = WatchOptions {
        resource_version: list.head.resource_version,
        ..Default::default()
    };
    let mut watch = pods.watch().with(&options).await?;
    while let Some(event) = watch.next().await.transpose()? {
        let Some(pod) = event.object().filter(|pod| pod.name() == "test-pod2") else {
            continue;
        };
        println!("{} : {}", event.kind(), pod.name());
        if event.kind() == WatchEventKind::Deleted {
            break;
        }
        if pod.to_value()?["status"]["phase"] == "Running" && !pod.is_deleting() {
            pods.delete("test-pod2").await?;
        }
    }
    sandbox.close().await?;
    Ok(())
}
