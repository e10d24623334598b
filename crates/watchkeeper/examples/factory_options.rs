//! A factory's informers, limited to a namespace and to labels: two kinds, each watched once however many ask.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::{CreateOptions, LabelSelector};
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let maps = sandbox
        .client()
        .dynamic(ConfigMap::resource())
        .default_namespace();
    for (name, tier) in [
        ("etcd", "control-plane"),
        ("scheduler", "control-plane"),
        ("web", "front"),
    ] {
        let map = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
        maps.create(&map, &CreateOptions::default()).await?;
    }

    let factory = Factory::new(
        sandbox.client().clone(),
        FactoryOptions {
            namespaces: vec![sandbox.namespace().to_owned()],
            ..Default::default()
        },
    );
    let labels: LabelSelector = "tier=control-plane".parse()?;
    let maps = factory.informer(Selection {
        labels: labels.clone(),
        ..Selection::of::<ConfigMap>()
    });
    let deployments = factory.informer(Selection {
        labels,
        ..Selection::of::<Deployment>()
    });
    factory.synced(Duration::from_secs(10)).await?;
    for map in maps.store().snapshot().iter() {
        println!("config map {}", map.key());
    }
    println!("{} deployments", deployments.store().snapshot().len());
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}
