//! Lists from an informer's store instead of the server: by namespace, by label, and as structs.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::LabelSelector;
use watchkeeper::runtime::factory::{Factory, Selection};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let client = sandbox.client();
    let maps = client.dynamic(ConfigMap::resource()).default_namespace();
    for (name, tier) in [
        ("etcd", "control-plane"),
        ("scheduler", "control-plane"),
        ("web", "front"),
    ] {
        let map = json!({"metadata": {"name": name, "labels": {"tier": tier}}, "data": {"tier": tier}});
        maps.create(&map).await?;
    }

    let factory = Factory::new(client.clone(), Default::default());
    let informer = factory.informer(Selection::of::<ConfigMap>());
    // A snapshot is one state: its objects are bytes until they are decoded.
    let snapshot = informer.synced(Duration::from_secs(10)).await?;
    let tier: LabelSelector = "tier".parse()?;
    println!("labelled: {}", snapshot.select(&tier).count());
    // The store of a kind returns structs, which are decoded once.
    let control_plane: LabelSelector = "tier=control-plane".parse()?;
    for map in informer.store().select(&control_plane) {
        println!("tier=control-plane: {}", map.key().name());
    }
    for map in informer.store().in_namespace(sandbox.namespace()) {
        if let Some(tier) = map.data.iter().flatten().find(|(key, _)| *key == "tier") {
            println!("{}: {}", map.key(), tier.1);
        }
    }
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}
