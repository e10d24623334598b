//! Lists pods, then watches from exactly there: what happens between the two is neither missed nor seen twice.
#![allow(clippy::print_stdout)]

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::{ResourceType, WatchEvent};
use watchkeeper::meta::{DeleteOptions, ListOptions, PatchKind, PatchOptions, WatchOptions};
use watchkeeper_testing::TestCluster;

const POD: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: web}]}}";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::start().await?;
    let pods = cluster.client().dynamic(Pod::resource()).namespace("default");

    let list = pods.list(&ListOptions::default()).await?;
    println!(
        "{} pods at version {}",
        list.items.len(),
        list.head.resource_version
    );
    cluster.load(POD).await?;
    let labelled = json!({"metadata": {"labels": {"app": "web"}}});
    pods.patch("web", PatchKind::Merge, &labelled, &PatchOptions::default())
        .await?;
    pods.delete("web", &DeleteOptions::default()).await?;

    let mut watch = pods
        .watch(&WatchOptions {
            resource_version: list.head.resource_version,
            ..Default::default()
        })
        .await?;
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        let (word, pod) = match event? {
            WatchEvent::Added(pod) => ("ADDED", pod),
            WatchEvent::Modified(pod) => ("MODIFIED", pod),
            WatchEvent::Deleted(pod) => ("DELETED", pod),
            _ => continue,
        };
        println!("{word:<9}{} at {}", pod.key(), pod.resource_version());
        seen.push(word);
        if word == "DELETED" {
            break;
        }
    }
    assert_eq!(seen, ["ADDED", "MODIFIED", "DELETED"]);
    cluster.stop().await;
    Ok(())
}
