//! The options of a factory apply to all its informers: namespace, labels and resync interval. Each kind is watched
//! once, however many users it has.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::LabelSelector;
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper::runtime::informer::Notice;
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
        let map = json!({"metadata": {"name": name, "labels": {"tier": tier}}});
        maps.create(&map).await?;
    }

    let labels: LabelSelector = "tier=control-plane".parse()?;
    let options = FactoryOptions {
        namespaces: vec![sandbox.namespace().to_owned()],
        tweak: Some(Arc::new(move |selection| selection.labels = labels.clone())),
        // Config maps every second, everything else every 45 seconds.
        resync: Some(Duration::from_secs(45)),
        resync_by_resource: [(ConfigMap::resource(), Some(Duration::from_secs(1)))].into(),
        ..Default::default()
    };
    let factory = Factory::new(client.clone(), options);
    let maps = factory.informer(Selection::of::<ConfigMap>());
    let deployments = factory.informer(Selection::of::<Deployment>());
    factory.synced(Duration::from_secs(10)).await?;
    println!("{} deployments", deployments.store().snapshot().len());

    let mut changes = maps.subscribe(Default::default());
    for _ in 0..5 {
        match changes.next().await.ok_or("the informer has ended")? {
            Notice::Change(delta) => println!("{:?}: config map {}", delta.cause(), delta.key()),
            Notice::Synced => println!("synced"),
        }
    }
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}
