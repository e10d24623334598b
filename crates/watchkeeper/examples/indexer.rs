//! An index over a store: objects by a value that a function finds in them, kept up to date with every change.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use watchkeeper::client::ResourceType;
use watchkeeper::meta::{LabelSelector, PatchKind, PatchOptions};
use watchkeeper::runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper::runtime::store::Snapshot;
use watchkeeper::wire::Object;
use watchkeeper_testing::TestCluster;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::start().await?;
    for (name, colour) in [("a", "blue"), ("b", "green"), ("c", "blue")] {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"colour": colour}},
        });
        cluster.load(&map.to_string()).await?;
    }
    let api = cluster
        .client()
        .dynamic(ConfigMap::resource())
        .namespace("default");
    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::of::<ConfigMap>());
    let colour = |object: &Object| {
        object
            .label("colour")
            .map(|colour| colour.into_owned())
            .into_iter()
            .collect()
    };
    informer.store().add_index("colour", Arc::new(colour))?;

    let before = informer.synced(Duration::from_secs(10)).await?;
    assert_eq!(names(&before, "blue")?, ["a", "c"]);
    let repainted = json!({"metadata": {"labels": {"colour": "green"}}});
    let written = api
        .patch("c", PatchKind::Merge, &repainted, &PatchOptions::default())
        .await?;
    let after = informer.store().wait_for(&written.version()).await?;
    assert_eq!(names(&after, "green")?, ["b", "c"], "reads its own write");
    assert_eq!(names(&before, "blue")?, ["a", "c"], "a snapshot stays as it was");

    let blue: LabelSelector = "colour=blue".parse()?;
    assert_eq!(
        after.select(&blue).count(),
        1,
        "the same question without an index"
    );
    println!("{} objects in {} bytes", after.len(), after.memory_size());
    informer.stop().await;
    cluster.stop().await;
    Ok(())
}

fn names(snapshot: &Snapshot, colour: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let found = snapshot.by_index("colour", colour)?;
    Ok(found.map(|object| object.name().to_owned()).collect())
}
