//! Indexes over a store: objects by their namespace, which every store has, and by whatever a function finds in them.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::{CreateOptions, PatchKind, PatchOptions};
use watchkeeper::runtime::factory::{Factory, Selection};
use watchkeeper::wire::Object;
use watchkeeper_testing::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::open(Default::default()).await?;
    let maps = sandbox.client().dynamic(ConfigMap::resource());
    let maps = maps.namespace(sandbox.namespace());
    for (name, colour) in [("a", "blue"), ("b", "green"), ("c", "blue")] {
        let map = json!({"metadata": {"name": name, "labels": {"colour": colour}}});
        maps.create(&map, &CreateOptions::default()).await?;
    }
    let factory = Factory::new(sandbox.client().clone(), Default::default());
    let informer = factory.informer(Selection::of::<ConfigMap>());
    let colour = |map: &Object| map.label("colour").into_iter().map(Into::into).collect();
    informer.store().add_index("colour", Arc::new(colour))?;

    let before = informer.synced(Duration::from_secs(10)).await?;
    let indexes: Vec<&str> = before.index_names().collect();
    println!("indexes: {indexes:?}");
    let values: Vec<&str> = before.index_values("colour")?.collect();
    println!("values of colour: {values:?}");
    println!("blue: {:?}", names(before.by_index("colour", "blue")?));
    let here = before.by_index("namespace", sandbox.namespace())?;
    println!(
        "in this namespace: {:?}",
        names(here.filter(|map| map.label("colour").is_some()))
    );
    let first = before.find(sandbox.namespace(), "a").ok_or("a is missing")?;
    println!(
        "of the same colour as a: {:?}",
        names(before.index("colour", first)?)
    );

    let green = json!({"metadata": {"labels": {"colour": "green"}}});
    let written = maps
        .patch("c", PatchKind::Merge, &green, &PatchOptions::default())
        .await?;
    let after = informer.store().wait_for(&written.version()).await?;
    println!(
        "green, with the last write: {:?}",
        names(after.by_index("colour", "green")?)
    );
    println!(
        "blue, as it was before: {:?}",
        names(before.by_index("colour", "blue")?)
    );
    factory.stop().await;
    sandbox.close().await?;
    Ok(())
}

fn names<'a>(found: impl IntoIterator<Item = &'a Object>) -> Vec<&'a str> {
    found.into_iter().map(Object::name).collect()
}
