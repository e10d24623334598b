//! Lists from an informer's store instead of the server: by namespace, by label, and as structs.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::{CreateOptions, LabelSelector};
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
        maps.create(&map, &CreateOptions::default()).await?;
    }

    let factory = Factory::new(client.clone(), Default::default());
    let informer = factory.informer(Selection::of::<ConfigMap>());
    let snapshot = informer.synced(Duration::from_secs(10)).await?;
    let tier: LabelSelector = "tier".parse()?;
    println!("labelled: {}", snapshot.select(&tier).count());
    let control_plane: LabelSelector = "tier=control-plane".parse()?;
    for map in snapshot.select(&control_plane) {
        println!("tier=control-plane: {}", map.name());
    }
    for map in snapshot.in_namespace(sandbox.namespace()) {
        let decoded: ConfigMap = map.decode()?;
        if let Some(tier) = decoded.data.unwrap_or_default().get("tier") {
            println!("{}: {tier}", map.key());
        }
    }
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}
