//! Follows two kinds in one stream, notes in a file how far it got, stops, and goes on from there: what was deleted
//! meanwhile is told as well.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use watchkeeper::client::{Client, ResourceType};
use watchkeeper::meta::DeleteOptions;
use watchkeeper::runtime::api_source::ApiSource;
use watchkeeper::runtime::follow::Follow;
use watchkeeper::runtime::position::PositionFile;
use watchkeeper::runtime::watcher::Event;
use watchkeeper_testing::TestCluster;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::start().await?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("position.json");
    cluster
        .load("{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}")
        .await?;

    follow_until(
        cluster.client(),
        &file,
        &["configmaps are listed", "secrets are listed"],
    )
    .await?;
    println!("stopped at {}", std::fs::read_to_string(&file)?);

    let maps = cluster.client().api::<ConfigMap>().namespace("default");
    maps.delete("old", &DeleteOptions::default()).await?;
    cluster
        .load("{apiVersion: v1, kind: Secret, metadata: {name: new}}")
        .await?;

    let told = follow_until(
        cluster.client(),
        &file,
        &["default/old is gone", "default/new has changed"],
    )
    .await?;
    assert!(
        !told.iter().any(|line| line.ends_with("listed")),
        "it goes on and does not begin again"
    );
    cluster.stop().await;
    Ok(())
}

/// Follows until all of this was told; the file then says that it was handled.
async fn follow_until(
    client: &Client,
    file: &Path,
    expected: &[&str],
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut follow = Follow::with_position(PositionFile::open(file)?);
    for resource in [ConfigMap::resource(), Secret::resource()] {
        let stream = resource.plural.clone();
        let objects = client.dynamic(resource).namespace("default");
        follow.add(&stream, Arc::new(ApiSource::new(objects)), Default::default());
    }
    let mut told: Vec<String> = Vec::new();
    while !expected.iter().all(|line| told.iter().any(|other| other == line)) {
        let followed = follow.next().await?.ok_or("all streams have ended")?;
        told.push(match followed.what? {
            Event::InitDone(_) => format!("{} are listed", followed.stream),
            Event::InitApply(object) => format!("{} is there", object.key()),
            Event::Modified(object) => format!("{} has changed", object.key()),
            Event::Deleted(object) => format!("{} is gone", object.key()),
            Event::Init | Event::Progress(_) => continue,
        });
        println!("{}", told[told.len() - 1]);
    }
    follow.finish()?;
    Ok(told)
}
