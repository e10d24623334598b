//! What goes wrong on the way: the cache converges, subscribers are told the truth, and the health says why.

use std::sync::Arc;

use watchkeeper_meta::Status;
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::informer::{Informer, InformerOptions};
use watchkeeper_runtime::watcher::{Config, InitialList};
use watchkeeper_server::{Flow, RequestMatch, Verb};

use crate::support::{Cluster, SOON, told_about};

fn watches() -> RequestMatch {
    RequestMatch::new(Verb::Watch, "configmaps")
}

fn start(cluster: &Cluster) -> Informer {
    Informer::start(
        Arc::new(ApiSource::new(cluster.maps())),
        InformerOptions::default(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_cut_or_ended_stream_is_resumed_without_gap_or_repeat() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let informer = start(&cluster);
    let mut changes = informer.subscribe(Default::default());
    told_about(&mut changes, 2).await;
    for (flow, name) in [(Flow::Cut, "b"), (Flow::Ended, "c"), (Flow::Cut, "d")] {
        cluster.server.faults().set_flow(&watches(), flow);
        cluster.create(name).await;
        assert_eq!(told_about(&mut changes, 1).await, [format!("+{name} Watch")]);
    }
    assert_eq!(
        informer
            .store()
            .snapshot()
            .in_namespace("default")
            .filter(|map| map.name().len() == 1)
            .count(),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_listed_again_and_only_the_difference_told() {
    let cluster = Cluster::start().await;
    for name in ["gone", "same", "other"] {
        cluster.create(name).await;
    }
    let informer = start(&cluster);
    let mut changes = informer.subscribe(Default::default());
    told_about(&mut changes, 4).await;
    // The watch breaks, and while it is away more happens than the server remembers.
    let expired = Status::too_old_resource_version(1, 2);
    cluster
        .server
        .faults()
        .answer_next(watches(), 1, expired)
        .expect("planned");
    cluster.server.faults().set_flow(&watches(), Flow::Stalled);
    cluster.delete("gone").await;
    cluster.change("other", "two").await;
    cluster.create("new").await;
    cluster.server.faults().set_flow(&watches(), Flow::Cut);
    let told = told_about(&mut changes, 3).await;
    assert_eq!(told, ["-gone Relist", "+new Relist", "~other Relist"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_instead() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let refused = Status::failure(
        422,
        watchkeeper_meta::StatusReason::INVALID,
        "sendInitialEvents is forbidden",
    );
    cluster
        .server
        .faults()
        .answer_next(watches(), 1, refused)
        .expect("planned");
    let informer = start(&cluster);
    assert!(
        informer
            .synced(SOON)
            .await
            .expect("synced")
            .find("default", "a")
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_named_and_overcome_when_it_ends() {
    let cluster = Cluster::start().await;
    let pods = watchkeeper_meta::GroupResource::new("", "configmaps");
    let forbidden = Status::forbidden(&pods, "", "no rights yet");
    let lists = RequestMatch::new(Verb::List, "configmaps");
    cluster
        .server
        .faults()
        .answer_next(lists, 1, forbidden)
        .expect("planned");
    let config = Config {
        initial_list: InitialList::Paged,
        ..Default::default()
    };
    let options = InformerOptions {
        config,
        ..Default::default()
    };
    let informer = Informer::start(Arc::new(ApiSource::new(cluster.maps())), options);
    let mut health = informer.watch_health();
    let failing = health.wait_for(|health| health.failing.is_some());
    let failing = tokio::time::timeout(SOON, failing)
        .await
        .expect("told")
        .expect("running")
        .to_string();
    assert!(failing.contains("no rights yet"), "{failing}");
    informer.synced(SOON).await.expect("synced once it may");
    assert!(informer.health().failing.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_too_busy_is_asked_again_later() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let informer = start(&cluster);
    informer.synced(SOON).await.expect("synced");
    let busy = Status::too_many_requests("try again", 1);
    cluster
        .server
        .faults()
        .answer_next(watches(), 1, busy)
        .expect("planned");
    cluster.server.faults().set_flow(&watches(), Flow::Cut);
    cluster.create("b").await;
    let there = informer
        .store()
        .wait_until(|snapshot| snapshot.find("default", "b").is_some());
    tokio::time::timeout(SOON, there).await.expect("caught up");
}
