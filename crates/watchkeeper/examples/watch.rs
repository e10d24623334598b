//! A watch: the existing objects, then the changes, until it ends. The server ends every watch sooner or later, so a
//! program has to watch again.
//!
//! 事件类型 "event", Pod名称 "pod", Pod阶段 "phase".
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::{ResourceType, WatchStream};
use watchkeeper::meta::WatchOptions;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();

    println!("a watch that is dropped:");
    // Opened first, so that it sees the pod from its creation on.
    let watch = pods.watch().await?;
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "web"}]}});
    pods.create(&pod).await?;
    show(watch, "Running").await?;

    println!("watches that the server ends after a second:");
    let options = WatchOptions {
        timeout_seconds: Some(1),
        ..Default::default()
    };
    for _ in 0..2 {
        show(pods.watch().with(&options).await?, "none").await?;
    }
    sandbox.close().await?;
    Ok(())
}

/// Prints the events of pods, until one is in the last phase.
async fn show(mut watch: WatchStream, last: &str) -> Result<(), Box<dyn std::error::Error>> {
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
