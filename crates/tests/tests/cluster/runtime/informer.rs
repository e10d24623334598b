//! Informers and controllers, on the embedded server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use watchkeeper_client::Error;
use watchkeeper_meta::FieldSelector;
use watchkeeper_runtime::api_source::ApiSource;
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::informer::Informer;
use watchkeeper_runtime::watcher::{Config, InitialList};

use crate::runtime::support::{Cluster, SOON, config_maps, leases, told_about};

fn informer(cluster: &Cluster, initial_list: InitialList) -> Informer {
    let config = Config {
        initial_list,
        ..Default::default()
    };
    Informer::start(Arc::new(ApiSource::new(cluster.maps())), config.into())
}

async fn follows(initial_list: InitialList) {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let informer = informer(&cluster, initial_list);
    let mut changes = informer.subscribe(Default::default());
    assert_eq!(told_about(&mut changes, 2).await, ["+a Initial", "synced"]);
    cluster.create("b").await;
    cluster.change("a", "two").await;
    cluster.delete("a").await;
    assert_eq!(
        told_about(&mut changes, 3).await,
        ["+b Watch", "~a Watch", "-a Watch"]
    );
    let own = cluster.change("b", "mine").await;
    let snapshot = informer
        .store()
        .wait_for(&own.version(), SOON)
        .await
        .expect("caught up");
    assert!(
        snapshot
            .find("default", "b")
            .is_some_and(|b| b.is_same_version(&own)),
        "reads its own write"
    );
    cluster.server.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_follows_the_server_by_streaming_list() {
    follows(InitialList::Streaming).await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_follows_the_server_by_pages() {
    follows(InitialList::Paged).await;
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_list_are_combined() {
    let cluster = Cluster::start().await;
    for number in 0..25 {
        cluster.create(&format!("map-{number:02}")).await;
    }
    let config = Config {
        page_size: Some(10),
        ..Config::paged()
    };
    let informer = Informer::start(Arc::new(ApiSource::new(cluster.maps())), config.into());
    let snapshot = informer.synced(SOON).await.expect("synced");
    let maps = snapshot.iter().filter(|object| object.name().starts_with("map-"));
    assert_eq!(maps.count(), 25);
}

#[tokio::test(start_paused = true)]
async fn a_factorys_resync_period_applies_to_its_informers() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let options = FactoryOptions {
        resync: Some(Duration::from_secs(20)),
        resync_by_resource: [(leases(), None)].into(),
        ..Default::default()
    };
    let factory = Factory::new(cluster.client.clone(), options);
    let here = |resource| Selection {
        namespaces: vec!["default".into()],
        ..Selection::all(resource)
    };
    let maps = factory.informer(here(config_maps()));
    let mut changes = maps.subscribe(Default::default());
    assert_eq!(told_about(&mut changes, 2).await, ["+a Initial", "synced"]);
    let start = tokio::time::Instant::now();
    assert_eq!(told_about(&mut changes, 1).await, ["~a Resync"]);
    assert!(start.elapsed() > Duration::from_secs(15));

    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "namespace": "default"}, "spec": {},
    });
    let lease_api = cluster.client.dynamic(leases()).namespace("default");
    lease_api.create(&lease).await.expect("created");
    let mut changes = factory.informer(here(leases())).subscribe(Default::default());
    assert_eq!(told_about(&mut changes, 2).await, ["+l Initial", "synced"]);
    let next = tokio::time::timeout(Duration::from_secs(3600), changes.next()).await;
    assert!(next.is_err(), "never, for this kind: {next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_factorys_tweak_applies_to_every_selection() {
    let cluster = Cluster::start().await;
    for name in ["a", "b"] {
        cluster.create(name).await;
    }
    let options = FactoryOptions {
        tweak: Some(Arc::new(|selection: &mut Selection| {
            selection.fields = FieldSelector::name("b");
        })),
        ..Default::default()
    };
    let factory = Factory::new(cluster.client.clone(), options);
    let informer = factory.informer(Selection::all(config_maps()));
    let snapshot = informer.synced(SOON).await.expect("synced");
    let keys: Vec<_> = snapshot.iter().map(|object| object.key().to_string()).collect();
    assert_eq!(keys, ["default/b"]);
    let mut same = Selection::all(config_maps());
    same.fields = FieldSelector::name("b");
    let same = factory.informer(same);
    assert_eq!(
        same.store().snapshot().generation(),
        snapshot.generation(),
        "an equal selection has the same informer"
    );
}

#[tokio::test(start_paused = true)]
async fn a_factory_shares_informers_and_restarts_them() {
    let cluster = Cluster::start().await;
    let factory = Factory::new(cluster.client.clone(), FactoryOptions::default());
    let all = || Selection::all(config_maps());
    let one = factory.informer(all());
    factory.synced(SOON).await.expect("synced");
    let other = factory.informer(all());
    cluster.create("a").await;
    one.store()
        .wait_until(|snapshot| snapshot.find("default", "a").is_some())
        .await
        .expect("running");
    assert!(
        other.store().snapshot().find("default", "a").is_some(),
        "the same store"
    );
    let metadata = factory.informer(Selection {
        metadata_only: true,
        ..all()
    });
    let snapshot = metadata.synced(SOON).await.expect("synced");
    assert_eq!(
        snapshot.find("default", "a").expect("there").kind(),
        "PartialObjectMetadata"
    );
    one.stop().await;
    let again = factory.informer(all());
    assert!(again.synced(SOON).await.is_ok());
    factory.stop().await;
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_informer() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let factory = Factory::new(cluster.client.clone(), FactoryOptions::default());
    let selection = Selection {
        namespaces: vec!["kube-system".into(), "default".into()],
        ..Selection::all(config_maps())
    };
    let informer = factory.informer(selection);
    let snapshot = informer.synced(SOON).await.expect("synced");
    assert!(snapshot.find("default", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn selectors_are_applied_by_the_server() {
    let cluster = Cluster::start().await;
    let label = async |name: &str, colour: &str| {
        let patch = serde_json::json!({"metadata": {"labels": {"colour": colour}}});
        let (kind, options) = (watchkeeper_meta::PatchKind::Merge, Default::default());
        let patched = cluster.maps().patch(name, kind, &patch).with(&options).await;
        patched.expect("labelled");
    };
    for name in ["a", "b", "c"] {
        cluster.create(name).await;
    }
    label("a", "blue").await;
    let factory = Factory::new(cluster.client.clone(), FactoryOptions::default());
    let blue = factory.informer(Selection {
        labels: "colour=blue".parse().expect("a selector"),
        ..Selection::all(config_maps())
    });
    let named = factory.informer(Selection {
        fields: "metadata.name=b".parse().expect("a selector"),
        ..Selection::all(config_maps())
    });
    let (mut by_label, mut by_field) = (
        blue.subscribe(Default::default()),
        named.subscribe(Default::default()),
    );
    assert_eq!(told_about(&mut by_label, 2).await, ["+a Initial", "synced"]);
    assert_eq!(told_about(&mut by_field, 2).await, ["+b Initial", "synced"]);
    label("b", "blue").await;
    label("a", "green").await;
    assert_eq!(told_about(&mut by_label, 2).await, ["+b Watch", "-a Watch"]);
    assert_eq!(told_about(&mut by_field, 1).await, ["~b Watch"]);
}

/// Annotates each requested object once.
struct Marker {
    cluster: Arc<Cluster>,
    calls: Arc<AtomicUsize>,
}

impl Reconciler for Marker {
    type Error = Error;

    async fn reconcile(&self, request: Request) -> Result<Action, Error> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(object) = request.object
            && object.name().starts_with("map-")
            && object.annotation("marked").is_none()
        {
            let patch = serde_json::json!({"metadata": {"annotations": {"marked": "yes"}}});
            let (kind, options) = (watchkeeper_meta::PatchKind::Merge, Default::default());
            self.cluster
                .maps()
                .patch(object.name(), kind, &patch)
                .with(&options)
                .await?;
        }
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_reconciles_every_object() {
    let cluster = Arc::new(Cluster::start().await);
    for number in 0..10 {
        cluster.create(&format!("map-{number}")).await;
    }
    let informer = informer(&cluster, InitialList::Streaming);
    let calls = Arc::new(AtomicUsize::new(0));
    let marker = Marker {
        cluster: cluster.clone(),
        calls: calls.clone(),
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = DynamicController::new("marker", informer.clone(), ControllerOptions::default());
    let task = tokio::spawn(controller.run(marker, async {
        let _ = stopped.await;
    }));
    cluster.create("map-late").await;
    let marked = informer.store().wait_until(|snapshot| {
        let maps = snapshot.iter().filter(|object| object.name().starts_with("map-"));
        maps.filter(|object| object.annotation("marked").is_some())
            .count()
            == 11
    });
    let marked = tokio::time::timeout(SOON, marked).await;
    marked.expect("all are marked").expect("running");
    assert!(calls.load(Ordering::SeqCst) >= 11);
    stop.send(()).expect("still running");
    assert_eq!(task.await.expect("no panic").aborted, 0);
}
