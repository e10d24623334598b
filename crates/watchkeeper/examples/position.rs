//! A watch that survives its program: its position and an inventory of the objects are in a file. The next run is
//! sent what happened in between, deletes included, even if the server has compacted its history.
//!
//! 事件类型 "event", Pod名称 "pod".
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::{DynamicApi, ResourceType};
use watchkeeper::meta::PatchKind;
use watchkeeper::runtime::api_source::ApiSource;
use watchkeeper::runtime::follow::Follow;
use watchkeeper::runtime::position::Position;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pods = sandbox.client().dynamic(Pod::resource()).default_namespace();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("pods.position");
    for name in ["pod-1", "pod-2"] {
        create(&pods, name).await?;
    }
    println!("the first run:");
    follow(&pods, &file, 2).await?;

    pods.delete("pod-1").await?;
    let label = json!({"metadata": {"labels": {"app": "web"}}});
    pods.patch("pod-2", PatchKind::Merge, &label).await?;
    create(&pods, "pod-3").await?;
    println!("the second run:");
    follow(&pods, &file, 4).await?; // a deleted pod is first marked, then gone
    sandbox.close().await?;
    Ok(())
}

/// Creates a pod that is not changed by others.
async fn create(pods: &DynamicApi, name: &str) -> Result<(), watchkeeper::client::Error> {
    let spec = json!({"schedulingGates": [{"name": "example.com/wait"}], "containers": [{"name": "c", "image": "c"}]});
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    pods.create(&pod).await.map(|_| ())
}

/// A run of the program that stops after some events. Asking for the next event acknowledges the last one.
async fn follow(pods: &DynamicApi, file: &Path, events: usize) -> Result<(), Box<dyn std::error::Error>> {
    let mut follow = Follow::from_position(Position::open(file)?);
    follow.add("pods", Arc::new(ApiSource::new(pods.clone())), Default::default());
    let mut left = events;
    while left > 0 || follow.is_listing() {
        let Some(followed) = follow.next().await? else {
            break;
        };
        match followed.what {
            Ok(event) => {
                if let Some(key) = event.key() {
                    println!("   事件类型: {:<8} Pod名称: {}", event.kind(), key.name());
                    left = left.saturating_sub(1);
                }
            }
            Err(failure) => println!("   Warn: {failure}"),
        }
    }
    Ok(follow.finish()?)
}
