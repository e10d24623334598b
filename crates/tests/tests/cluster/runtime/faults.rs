//! Faults: the cache converges, subscribers get correct events, and the health names the cause.

use std::sync::Arc;

use watchkeeper_meta::Status;
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::informer::{Informer, InformerOptions};
use watchkeeper_runtime::watcher::Config;
use watchkeeper_server::{Flow, RequestMatch, Verb};

use crate::runtime::support::{Cluster, IN_THE_END, SOON, told_about};

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
async fn after_an_expired_watch_a_relist_delivers_only_the_difference() {
    let cluster = Cluster::start().await;
    for name in ["gone", "same", "other"] {
        cluster.create(name).await;
    }
    let informer = start(&cluster);
    let mut changes = informer.subscribe(Default::default());
    told_about(&mut changes, 4).await;
    // The watch breaks, and meanwhile its version is compacted.
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
    assert!(
        !cluster.maps().has_streaming_lists(),
        "every other watcher of this client knows"
    );
    let secrets = watchkeeper_meta::Resource {
        kind: "Secret".into(),
        plural: "secrets".into(),
        ..crate::runtime::support::config_maps()
    };
    assert!(
        cluster.client.dynamic(secrets).has_streaming_lists(),
        "another resource may support it"
    );
    // The answer to another streaming list request, which must not come.
    let unexpected = Status::internal_error("streamed again");
    let streaming = RequestMatch::new(Verb::Watch, "configmaps");
    let faults = cluster.server.faults();
    faults.answer_next(streaming, 1, unexpected).expect("planned");
    let another = start(&cluster);
    another.synced(SOON).await.expect("synced by a plain list");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_and_recovered_from() {
    let cluster = Cluster::start().await;
    let pods = watchkeeper_meta::GroupResource::new("", "configmaps");
    let forbidden = Status::forbidden(&pods, "", "no rights yet");
    let lists = RequestMatch::new(Verb::List, "configmaps");
    cluster
        .server
        .faults()
        .answer_next(lists, 1, forbidden)
        .expect("planned");
    let source = Arc::new(ApiSource::new(cluster.maps()));
    let informer = Informer::start(source, Config::paged().into());
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
async fn a_request_to_a_busy_server_is_retried() {
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
    let there = tokio::time::timeout(SOON, there).await;
    there.expect("caught up").expect("running");
}

/// A permission or a whole kind is removed under a running informer, and restored.
#[tokio::test(start_paused = true)]
async fn after_a_restored_permission_or_kind_only_the_difference_is_delivered() {
    let maps = watchkeeper_meta::GroupResource::new("", "configmaps");
    for refusal in [
        Status::forbidden(&maps, "", "the role is gone"),
        Status::unauthorized(),
        Status::not_found(&maps, "the kind is gone"),
    ] {
        let cluster = Cluster::start().await;
        cluster.create("gone").await;
        let informer = start(&cluster);
        let mut changes = informer.subscribe(Default::default());
        told_about(&mut changes, 2).await;
        let faults = cluster.server.faults();
        for request in [watches(), RequestMatch::new(Verb::List, "configmaps")] {
            faults.answer_next(request, 3, refusal.clone()).expect("planned");
        }
        faults.set_flow(&watches(), Flow::Cut);
        let mut health = informer.watch_health();
        let failing = health.wait_for(|health| {
            let failure = health.failing.as_ref().map(ToString::to_string);
            failure.is_some_and(|failure| failure == refusal.message)
        });
        let failing = tokio::time::timeout(SOON, failing).await.expect("told why");
        assert!(
            failing.expect("running").is_synced(),
            "what is known stays readable"
        );
        assert!(informer.store().snapshot().find("default", "gone").is_some());

        cluster.delete("gone").await;
        let last = cluster.create("new").await.version();
        let caught_up = informer.store().wait_for(&last, IN_THE_END).await;
        caught_up.expect("caught up");
        let mut told = told_about(&mut changes, 2).await;
        told.sort();
        assert!(told[0].starts_with("+new"), "{told:?}");
        assert!(told[1].starts_with("-gone"), "{told:?}");
        assert!(informer.health().failing.is_none());
    }
}

/// Informers start, fail and stop: their tasks, connections and objects are freed.
#[tokio::test(start_paused = true)]
async fn stopped_informers_leave_no_tasks_connections_or_objects() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let round = async |turn: usize| {
        let informer = start(&cluster);
        let mut changes = informer.subscribe(Default::default());
        told_about(&mut changes, 2).await;
        let flow = [Flow::Cut, Flow::Ended][turn % 2];
        cluster.server.faults().set_flow(&watches(), flow);
        cluster.change("a", &turn.to_string()).await;
        told_about(&mut changes, 1).await;
        let kept = Arc::downgrade(&informer.store().snapshot());
        informer.stop().await;
        kept
    };
    round(0).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let settled = async || {
        let mut last = usize::MAX;
        // The server needs a few turns to end its streams.
        while tasks() < last {
            last = tasks();
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        last
    };
    let (tasks_before, connections_before) = (settled().await, cluster.client.open_connections());
    let mut kept = Vec::new();
    for turn in 1..=20 {
        kept.push(round(turn).await);
    }
    assert_eq!(settled().await, tasks_before, "tasks");
    assert_eq!(
        cluster.client.open_connections(),
        connections_before,
        "connections"
    );
    assert!(
        kept.iter().all(|snapshot| snapshot.upgrade().is_none()),
        "objects"
    );
}
