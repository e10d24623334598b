//! Follows two kinds in one stream, notes in a file how far it got, stops, and goes on from there: what was deleted
//! meanwhile is told as well.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use watchkeeper::client::{Client, ResourceType};
use watchkeeper::meta::DeleteOptions;
use watchkeeper::runtime::api_source::ApiSource;
use watchkeeper::runtime::follow::{Follow, FollowEvent};
use watchkeeper::runtime::position::Position;
use watchkeeper_testing::TestCluster;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = TestCluster::start().await?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("maps.position");
    cluster
        .load("{apiVersion: v1, kind: ConfigMap, metadata: {name: old}}")
        .await?;

    follow_until(
        cluster.client(),
        &file,
        &["configmaps are synced", "secrets are synced"],
    )
    .await?;
    println!("stopped");

    let maps = cluster.client().api::<ConfigMap>().namespace("default");
    maps.delete("old", &DeleteOptions::default()).await?;
    cluster
        .load("{apiVersion: v1, kind: Secret, metadata: {name: new}}")
        .await?;

    let told = follow_until(
        cluster.client(),
        &file,
        &["default/old is gone", "default/new was added"],
    )
    .await?;
    assert!(
        !told.iter().any(|line| line.ends_with("synced")),
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
    let mut follow = Follow::from_position(Position::open(file)?);
    for resource in [ConfigMap::resource(), Secret::resource()] {
        let stream = resource.plural.clone();
        let objects = client.dynamic(resource).namespace("default");
        follow.add(&stream, Arc::new(ApiSource::new(objects)), Default::default());
    }
    let mut told: Vec<String> = Vec::new();
    while !expected.iter().all(|line| told.iter().any(|other| other == line)) {
        let followed = follow.next().await?.ok_or("all streams have ended")?;
        told.push(match followed.what? {
            FollowEvent::Added(object) => format!("{} was added", object.key()),
            FollowEvent::Modified(object) => format!("{} has changed", object.key()),
            FollowEvent::Deleted(gone) => format!("{} is gone", gone.key),
            FollowEvent::Synced(_) => format!("{} are synced", followed.stream),
            FollowEvent::Restarted(restart) => format!("{} begin anew: {}", followed.stream, restart.reason),
            FollowEvent::Bookmark(_) => continue,
        });
        println!("{}", told[told.len() - 1]);
    }
    follow.finish()?;
    Ok(told)
}
