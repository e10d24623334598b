//! An informer's store: one object by its key, and the store before the first list is complete.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::ObjectKey;
use watchkeeper::runtime::factory::{Factory, Selection};
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let pod = json!({"metadata": {"name": "etcd"}, "spec": {"containers": [{"name": "c", "image": "etcd"}]}});
    let pods = sandbox.client().api::<Pod>().namespace(sandbox.namespace());
    pods.objects().create(&pod).await?;

    let factory = Factory::new(sandbox.client().clone(), Default::default());
    let informer = factory.informer(Selection::of::<Pod>());
    let key = ObjectKey::new(sandbox.namespace(), "etcd");
    println!("before the first list: {:?}", informer.store().get(&key));

    let snapshot = informer.synced(Duration::from_secs(10)).await?;
    println!(
        "by key: {:?}",
        snapshot.get(&key).map(|pod| pod.key().to_string())
    );
    let text = format!("{}/etcd", sandbox.namespace());
    let found = informer.store().get_by_key(&text)?;
    println!("by text: {:?}", found.map(|pod| pod.key().to_string()));
    println!("absent: {:?}", informer.store().get_by_key("abc")?);
    match informer.store().get_by_key("a/b/c") {
        Ok(found) => println!("{found:?}"),
        Err(error) => println!("no key at all: {error}"),
    }
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}
