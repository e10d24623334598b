//! A position file across restarts, on the embedded server.

use std::sync::Arc;

use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::follow::{Follow, FollowEvent};
use watchkeeper_runtime::position::Position;
use watchkeeper_runtime::watcher::Config;

use crate::runtime::support::{Cluster, SOON, leases};

async fn next(follow: &mut Follow) -> String {
    loop {
        let followed = tokio::time::timeout(SOON, follow.next()).await.expect("an event");
        let followed = followed.expect("a position").expect("not the end");
        let stream = followed.stream;
        let said = match followed.what.expect("no failure") {
            FollowEvent::Added(object) => format!("{stream} +{}", object.name()),
            FollowEvent::Modified(object) => format!("{stream} ~{}", object.name()),
            FollowEvent::Deleted(gone) => format!("{stream} -{}", gone.key.name()),
            FollowEvent::Synced(_) => format!("{stream} synced"),
            FollowEvent::Restarted(_) => format!("{stream} restarted"),
            FollowEvent::Bookmark(_) => continue,
        };
        if !said.contains("kube-root-ca.crt") {
            return said;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changes_during_downtime_are_delivered_including_deletes() {
    let cluster = Cluster::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("position.json");
    let start = || {
        let mut follow = Follow::from_position(Position::open(&path).expect("readable"));
        follow.add(
            "maps",
            Arc::new(ApiSource::new(cluster.maps())),
            Config::default(),
        );
        follow
    };
    cluster.create("a").await;
    let mut first = start();
    assert_eq!(
        [next(&mut first).await, next(&mut first).await],
        ["maps +a", "maps synced"]
    );
    first.finish().expect("written");
    cluster.create("b").await;
    cluster.delete("a").await;
    let mut second = start();
    assert_eq!(
        [next(&mut second).await, next(&mut second).await],
        ["maps +b", "maps -a"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_position_is_reported_and_everything_listed() {
    let cluster = Cluster::start().await;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("position.json");
    let mut position = Position::open(&path).expect("readable");
    position.reach("maps", &cluster.create("a").await.version());
    position.save().expect("written");
    drop(position);
    cluster.create("b").await;
    let store = cluster.server.registry().store();
    store.compact(store.current_revision()).await.expect("compacted");

    let mut follow = Follow::from_position(Position::open(&path).expect("readable"));
    let source = Arc::new(ApiSource::new(cluster.maps()));
    follow.add("maps", source, Config::default());
    let first = tokio::time::timeout(SOON, follow.next()).await.expect("told");
    let warning = first.expect("a position").expect("not the end").what;
    let warning = warning.expect_err("it is too old").to_string();
    assert!(warning.starts_with("too old resource version: "), "{warning}");
    assert_eq!(
        [
            next(&mut follow).await,
            next(&mut follow).await,
            next(&mut follow).await,
            next(&mut follow).await
        ],
        ["maps restarted", "maps +a", "maps +b", "maps synced"]
    );
}

#[tokio::test(start_paused = true)]
async fn several_kinds_come_in_one_stream() {
    let cluster = Cluster::start().await;
    let mut follow = Follow::new();
    let lease_api = cluster.client.dynamic(leases()).namespace("default");
    follow.add(
        "maps",
        Arc::new(ApiSource::new(cluster.maps())),
        Config::default(),
    );
    follow.add(
        "leases",
        Arc::new(ApiSource::new(lease_api.clone())),
        Config::default(),
    );
    let mut listed = [next(&mut follow).await, next(&mut follow).await];
    listed.sort();
    assert_eq!(listed, ["leases synced", "maps synced"]);
    cluster.create("a").await;
    assert_eq!(next(&mut follow).await, "maps +a");
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "namespace": "default"}, "spec": {},
    });
    lease_api.create(&lease).await.expect("created");
    assert_eq!(next(&mut follow).await, "leases +l");
}
