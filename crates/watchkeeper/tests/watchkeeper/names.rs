//! The names that pages state in tables, "this is called that here": every one is used below, so that none of them goes
//! stale. Nothing here runs; programs that run are in the pages themselves.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watchkeeper::client::discovery::DiscoveryClient;
use watchkeeper::client::{Config, LoadOptions, retry_on_conflict};
use watchkeeper::meta::{Collect, CreateOptions, ListOptions, MetricsText, PatchKind, WatchOptions};
use watchkeeper::prelude::*;
use watchkeeper::runtime::controller::{KeyGroups, OnError, ReconcileHandle};
use watchkeeper::runtime::informer::SubscribeOptions;
use watchkeeper::runtime::queue::Queue;
use watchkeeper::runtime::retry_watcher::RetryWatcher;
use watchkeeper::runtime::watcher::Watcher;
use watchkeeper::runtime::{finalizer, leader, recorder, wait};
use watchkeeper_manager::{Manager, webhook};
use watchkeeper_testing::TestCluster;

type Outcome = Result<(), BoxError>;

#[derive(Resource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[resource(group = "example.com", version = "v1", namespaced)]
struct WebsiteSpec {
    domain: String,
}

struct Collector;
impl Collect for Collector {
    fn collect(&self, _: &mut MetricsText) {}
}

struct Quiet;
impl Handler<Pod> for Quiet {}

async fn clients(path: std::path::PathBuf) -> Outcome {
    let config = Config::load(&LoadOptions {
        path: Some(path),
        ..Default::default()
    })?;
    let client = Client::new(&config, Default::default())?;
    drop((Client::from_environment()?, TestCluster::start().await?));
    let pods = client.api::<Pod>().namespace("ns");
    let maps = [
        client.api::<ConfigMap>().default_namespace(),
        client.api::<ConfigMap>().all_namespaces(),
    ];
    let objects: [DynamicApi; 2] = [client.dynamic(Pod::resource()), client.metadata(Pod::resource())];
    let found: Option<Object> = objects[0].find("n").await?;
    let site = Pod::default();
    pods.create(&site).with(&CreateOptions::default()).await?;
    pods.list().with(&ListOptions::default()).await?;
    pods.watch().with(&WatchOptions::default()).await?;
    drop((pods.pages(), maps, found));
    pods.apply(&site, "manager").force().await?;
    let json = serde_json::json!({});
    pods.apply_configuration("name", &json, "manager").await?;
    pods.patch("name", PatchKind::Merge, &json).await?;
    pods.status().patch("name", PatchKind::Merge, &json).await?;
    pods.status().update(&site).await?;
    let read = retry_on_conflict(|| async { pods.get("web").await }).await;
    let _ = read.is_err_and(|error| error.is_not_found() || error.is_conflict() || error.is_expired());
    drop(DiscoveryClient::new(client.clone(), Default::default()));
    install_crds(&client, &[Website::crd()]).await?;
    Ok(())
}

async fn informers(client: Client, options: SubscribeOptions) -> Outcome {
    let factory = Factory::new(client, Default::default());
    let metadata = Selection {
        metadata_only: true,
        ..Selection::all(Pod::resource())
    };
    drop(factory.informer(metadata));
    let informer: Informer<Pod> = factory.informer(Selection::of::<Pod>());
    drop((
        informer.subscribe(options.clone()),
        informer.handle(options, Quiet),
    ));
    let store: &Store<Pod> = informer.store();
    store.synced().await?;
    drop(store.get(&ObjectKey::new("ns", "web")));
    store.add_index("domain", |site: &Arc<Pod>| {
        vec![site.metadata.name.clone().unwrap_or_default()]
    })?;
    drop(store.by_index("domain", "a.example")?);
    let (version, within) = ("1".parse()?, Duration::from_secs(1));
    store.wait_for(&version, within).await?;
    drop(Queue::<ObjectKey>::new(Default::default()));
    Ok(())
}

async fn reconcile(object: Arc<Website>, context: Context<Website>) -> Result<Action, BoxError> {
    let key: ObjectKey = object.key();
    let _ = (key.name(), key.namespace(), &object.metadata.labels);
    let _ = (
        context.store(),
        context.store_of::<ConfigMap>()?,
        object.owner_reference(),
    );
    context
        .api()
        .apply(&ConfigMap::default(), "manager")
        .force()
        .await?;
    let finalized = context.finalizer("example.com/site", async |phase| match phase {
        Phase::Apply(_) | Phase::Cleanup(_) => Ok::<_, BoxError>(Action::Done),
    });
    finalized.await?;
    let handle: &ReconcileHandle = context.handle();
    handle.reconcile(context.key().clone());
    handle.reconcile_all();
    Ok(Action::After(Duration::from_secs(1)))
}

fn controllers(client: Client, factory: &Factory) -> Manager {
    let selection = || Selection::of::<ConfigMap>();
    let options = ControllerOptions {
        workers: 2,
        groups: Some(KeyGroups::per_namespace(2)),
        debounce: Duration::from_secs(1),
        reconcile_timeout: Some(Duration::from_secs(60)),
        error_policy: Some(Arc::new(|_| OnError::GiveUp)),
        limiter: None,
        ..Default::default()
    };
    let key = |map: &ConfigMap| {
        vec![ObjectKey::new(
            "ns",
            map.metadata.name.as_deref().unwrap_or_default(),
        )]
    };
    let controller = Controller::<Website>::of_selected(factory, Selection::of::<Website>())
        .with(options)
        .owns_selected(selection())
        .watches_selected(selection(), key);
    let other = Controller::<Website>::of(factory)
        .owns::<ConfigMap>()
        .watches::<ConfigMap>(key)
        .reconcile(reconcile);
    let mut manager = Manager::new(client)
        .leader("x")
        .metrics(([127, 0, 0, 1], 0))
        .probes(([127, 0, 0, 1], 0))
        .always("a", |_| async { Ok::<_, BoxError>(()) })
        .while_leading("b", |_| async { Ok::<_, BoxError>(()) });
    let recorder: Recorder = manager.recorder("database-operator");
    recorder.record_for(&Pod::default(), Note::normal("reason", "message"));
    let told = move |context: Context<Website>| {
        recorder.record(context.object(), Note::normal("reason", "message"));
    };
    drop(told);
    let collector = Arc::new(Collector);
    manager.registry().add(collector);
    manager
        .controller(controller.reconcile(reconcile))
        .controller(other)
}

async fn the_rest(cluster: &TestCluster) {
    cluster.run_until_idle().await;
    type Rest = (
        Option<RetryWatcher<dyn watchkeeper::runtime::watcher::Source<Object = Object>>>,
        Option<Watcher<dyn watchkeeper::runtime::watcher::Source<Object = Object>>>,
        leader::LeaderOptions,
        webhook::Webhooks,
        wait::Condition,
        finalizer::FinalizerError,
        recorder::Writer,
    );
    let _ = size_of::<Rest>();
}

/// The names in the last column of the tables of a page, which are code.
fn names_in(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next());
    let code = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let words = code.flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter(|word| word.len() > 2).collect()
}

/// Words of the tables that name nothing of ours.
const PLACEHOLDERS: &[&str] = &["KUBECONFIG", "address", "duration", "function", "handler"];

#[test]
fn every_name_in_a_table_is_compiled_here() {
    let _ = (clients, informers, controllers, the_rest);
    let code: BTreeSet<&str> = include_str!("names.rs")
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .chain(PLACEHOLDERS.iter().copied())
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for page in [
        "../../docs/coming-from-client-go.md",
        "../../docs/coming-from-controller-runtime.md",
        "../../docs/operators.md",
        "src/coming_from_kube.md",
    ] {
        let Ok(text) = std::fs::read_to_string(folder.join(page)) else {
            // A published crate comes without the pages.
            continue;
        };
        let names = names_in(&text);
        assert!(names.len() > 20, "{page} has {names:?}");
        let missing: Vec<_> = names.difference(&code).collect();
        assert!(
            missing.is_empty(),
            "{page} has names that are not compiled: {missing:?}"
        );
    }
}
