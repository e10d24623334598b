//! Indexes of a store: objects by namespace, which every store has, and by the values of a function.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::runtime::factory::{Factory, Selection};
use watchkeeper::wire::Object;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let client = sandbox.client();
    let maps = client.dynamic(ConfigMap::resource()).default_namespace();
    for (name, colour) in [("a", "blue"), ("b", "green"), ("c", "blue")] {
        let map = json!({"metadata": {"name": name, "labels": {"colour": colour}}});
        maps.create(&map).await?;
    }
    let factory = Factory::new(client.clone(), Default::default());
    let informer = factory.informer(Selection::of::<ConfigMap>());
    informer.store().add_index("colour", |map| {
        let labels = map.metadata.labels.iter().flatten();
        let colours = labels.filter(|(key, _)| *key == "colour");
        colours.map(|(_, colour)| colour.clone()).collect()
    })?;

    let snapshot = informer.synced(Duration::from_secs(10)).await?;
    let indexes: Vec<&str> = snapshot.index_names().collect();
    println!("indexes: {indexes:?}");
    let values: Vec<&str> = snapshot.index_values("colour")?.collect();
    println!("values of colour: {values:?}");
    println!("blue: {:?}", names(snapshot.by_index("colour", "blue")?));
    let here = snapshot.by_index("namespace", sandbox.namespace())?;
    let coloured = here.filter(|map| map.label("colour").is_some());
    println!("in this namespace: {:?}", names(coloured));
    let first = snapshot.find(sandbox.namespace(), "a").ok_or("a is missing")?;
    println!("coloured as a: {:?}", names(snapshot.index("colour", first)?));
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}

fn names<'a>(found: impl IntoIterator<Item = &'a Object>) -> Vec<&'a str> {
    found.into_iter().map(Object::name).collect()
}
