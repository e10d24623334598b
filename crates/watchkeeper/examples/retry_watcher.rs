//! A watch that resumes by itself: when it breaks or the server ends it, it is opened again after the last version,
//! at most once a second. Nothing is missed or delivered twice.
//!
//! 事件类型 "event", Pod名称 "pod", Pod阶段 "phase".
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::{PatchKind, ResourceVersion};
use watchkeeper::runtime::api_source::ApiSource;
use watchkeeper::runtime::retry_watcher::RetryWatcher;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();
    let source = Arc::new(ApiSource::new(pods.clone()));

    // It needs a version to start from.
    if let Err(error) = RetryWatcher::new(source.clone(), ResourceVersion::unset()) {
        println!("Error: {error}");
    }
    let now = pods.list().await?.head.resource_version;
    let mut watcher = RetryWatcher::new(source, now)?;

    let spec = json!({"schedulingGates": [{"name": "example.com/wait"}], "containers": [{"name": "c", "image": "c"}]});
    let pod = json!({"metadata": {"name": "pod-1"}, "spec": spec});
    pods.create(&pod).await?;
    let label = json!({"metadata": {"labels": {"app": "web"}}});
    pods.patch("pod-1", PatchKind::Merge, &label).await?;
    pods.delete("pod-1").await?;
    // A deleted pod is first marked, then gone.
    for _ in 0..4 {
        let change = watcher.next().await.ok_or("the watch has ended")??;
        let pod = change.object().to_value()?;
        let (kind, name) = (change.kind(), change.object().name());
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        println!("   事件类型: {kind:<8} Pod名称: {name:<8} Pod阶段: {phase}");
    }
    sandbox.close().await?;
    Ok(())
}
