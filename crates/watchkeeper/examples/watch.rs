//! A watch: what is there, then what changes, until somebody ends it. The server ends every watch sooner or later, so a
//! program that wants to go on watches again.
//!
//! 事件类型 "event", Pod名称 "pod", Pod阶段 "phase".
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::{DynamicApi, ResourceType};
use watchkeeper::meta::{CreateOptions, WatchOptions};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();

    println!("a watch that is dropped:");
    let creating = async {
        let pod =
            json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "web"}]}});
        Ok(pods.create(&pod, &CreateOptions::default()).await?)
    };
    let everything = WatchOptions::default();
    tokio::try_join!(show(&pods, &everything, "Running"), creating)?;

    println!("watches that the server ends after a second:");
    let options = WatchOptions {
        timeout_seconds: Some(1),
        ..Default::default()
    };
    for _ in 0..2 {
        show(&pods, &options, "none").await?;
    }
    sandbox.close().await?;
    Ok(())
}

/// Prints what happens to pods, until one is in the last phase.
async fn show(
    pods: &DynamicApi,
    options: &WatchOptions,
    last: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut watch = pods.watch(options).await?;
    while let Some(event) = watch.next().await.transpose()? {
        let Some(pod) = event.object() else {
            println!("   Error: {event:?}");
            continue;
        };
        let value = pod.to_value()?;
        let phase = value["status"]["phase"].as_str().unwrap_or_default();
        let (kind, name) = (event.kind(), pod.name());
        println!("   事件类型: {kind:<8} Pod名称: {name:<40} Pod阶段: {phase}");
        if phase == last {
            return Ok(());
        }
    }
    println!("   Error: Channel closed");
    Ok(())
}
