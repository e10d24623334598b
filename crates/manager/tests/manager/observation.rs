//! The probes and metrics of a manager.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use watchkeeper_client::RequestMetrics;
use watchkeeper_manager::Manager;
use watchkeeper_meta::Status;
use watchkeeper_runtime::controller::DynamicController;
use watchkeeper_server::{RequestMatch, Verb};
use watchkeeper_testing::{TestCluster, client_of, unlimited};

use crate::support::*;

#[tokio::test]
async fn it_is_ready_once_its_informers_are_synced() {
    let cluster = TestCluster::start().await.unwrap();
    let faults = cluster.server().faults().clone();
    let unavailable = Status::service_unavailable("not now");
    for verb in [Verb::List, Verb::Watch] {
        let lists = RequestMatch::new(verb, "configmaps");
        faults.answer_next(lists, u32::MAX, unavailable.clone()).unwrap();
    }
    let (told, mut of) = mpsc::unbounded_channel();
    let (probes, address) = socket();
    let manager = Manager::new(cluster.client().clone())
        .probes(probes)
        .controller(controller(cluster.client()).reconcile(Telling(told)));
    let process = Process::start(manager).await;
    let (code, page) = eventually(async || http_get(address, "/readyz?verbose").await).await;
    let failing =
        "[+]ping ok\n[-]informer/configmaps failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!((code, page.as_str()), (500, failing));
    assert_eq!(http_get(address, "/healthz").await, Some((200, "ok".to_owned())));

    faults.clear();
    let passes = eventually(async || {
        let (code, page) = http_get(address, "/readyz?verbose").await?;
        (code == 200).then_some(page)
    })
    .await;
    assert_eq!(
        passes,
        "[+]ping ok\n[+]informer/configmaps ok\n[+]shutdown ok\nreadyz check passed\n"
    );
    create_map(cluster.client(), "a").await;
    soon(of.recv()).await;
    process.stop().await.unwrap();
    assert_eq!(http_get(address, "/readyz").await, None, "it has closed");
    cluster.stop().await;
}

#[tokio::test]
async fn it_is_not_ready_while_it_shuts_down() {
    let cluster = TestCluster::start().await.unwrap();
    let (probes, address) = socket();
    let (finish, may_finish) = tokio::sync::oneshot::channel::<()>();
    let manager = Manager::new(cluster.client().clone())
        .probes(probes)
        .always("slow", |stop| async move {
            stop.requested().await;
            let _ = may_finish.await;
            Ok::<_, std::io::Error>(())
        });
    let process = Process::start(manager).await;
    eventually(async || http_get(address, "/readyz").await?.0.eq(&200).then_some(())).await;
    process.signal();
    let page = eventually(async || {
        let (code, page) = http_get(address, "/readyz").await?;
        (code == 500).then_some(page)
    })
    .await;
    assert_eq!(
        page,
        "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n"
    );
    assert_eq!(
        http_get(address, "/livez").await,
        Some((200, "ok".to_owned())),
        "it is not to be killed"
    );
    drop(finish);
    process.ended().await.unwrap();
    cluster.stop().await;
}

/// Samples by name and labels. Every line must be valid for Prometheus, and every family must occur once.
fn parsed(page: &str) -> BTreeMap<String, f64> {
    let mut families = BTreeMap::new();
    let mut samples = BTreeMap::new();
    for line in page.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').expect("a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(
                families.insert(name.to_owned(), kind),
                None,
                "{name} stands there twice"
            );
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().expect("a name");
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix));
            assert!(
                families.contains_key(name) || family.is_some_and(|family| families.contains_key(family)),
                "{line}"
            );
            let value = value.parse().expect("a number");
            assert_eq!(
                samples.insert(series.to_owned(), value),
                None,
                "{series} stands there twice"
            );
        }
    }
    samples
}

#[tokio::test]
async fn metrics_have_the_names_that_dashboards_know() {
    let cluster = TestCluster::start().await.unwrap();
    let requests = Arc::new(RequestMetrics::default());
    let options = watchkeeper_client::ClientOptions {
        metrics: Some(requests.clone()),
        ..unlimited()
    };
    let client = client_of(cluster.server(), options).unwrap();
    let (metrics, address) = socket();
    let (told, mut of) = mpsc::unbounded_channel();
    let one = controller(&client);
    // Of the same resource: Prometheus refuses text with duplicates.
    let other = DynamicController::new("others", informer(&client), Default::default());
    let manager = Manager::new(client.clone());
    manager.registry().add(requests);
    let manager = manager
        .metrics(metrics)
        .leader("boss")
        .controller(one.reconcile(Telling(told.clone())))
        .controller(other.reconcile(Telling(told)));
    let process = Process::start(manager).await;
    create_map(&client, "a").await;
    while soon(of.recv()).await.as_deref() != Some("a") {}

    let samples = eventually(async || {
        let (code, page) = http_get(address, "/metrics").await?;
        assert_eq!(code, 200);
        let samples = parsed(&page);
        // The work may still be in progress.
        let done = samples["workqueue_work_duration_seconds_count{name=\"maps\"}"];
        (done == samples["workqueue_adds_total{name=\"maps\"}"]).then_some(samples)
    })
    .await;
    assert_eq!(samples["leader_election_master_status{name=\"boss\"}"], 1.0);
    assert_eq!(samples["workqueue_depth{name=\"maps\"}"], 0.0);
    let reconciles = "controller_runtime_reconcile_total{controller=\"maps\",result=\"success\"}";
    assert!(samples[reconciles] >= 1.0);
    assert!(samples["workqueue_adds_total{name=\"maps\"}"] >= 1.0);
    assert_eq!(samples["informer_synced{name=\"configmaps\"}"], 1.0);
    assert!(samples.contains_key("informer_synced{name=\"configmaps-2\"}"));
    assert!(samples["rest_client_requests_total{code=\"201\",host=\"localhost\",method=\"POST\"}"] >= 2.0);
    assert_eq!(http_get(address, "/else").await.map(|(code, _)| code), Some(404));
    process.stop().await.unwrap();
    cluster.stop().await;
}
