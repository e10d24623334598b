//! Typed controllers, on the embedded server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use watchkeeper_client::ResourceType;
use watchkeeper_meta::{ObjectKey, ObjectMeta, Resource};
use watchkeeper_runtime::controller::{Action, BoundController, Context, Controller, Stopped};
use watchkeeper_runtime::factory::{Factory, Selection};
use watchkeeper_runtime::finalizer::Phase;
use watchkeeper_runtime::informer::Informer;
use watchkeeper_runtime::store::Snapshot;

use crate::runtime::support::{Cluster, SOON};

const CLEANUP: &str = "example.com/cleanup";

/// A ConfigMap whose data are colours. Other ConfigMaps do not decode.
#[derive(Debug, Serialize, Deserialize)]
struct Paint {
    metadata: ObjectMeta,
    data: BTreeMap<String, Colour>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Green,
    Red,
}

impl ResourceType for Paint {
    fn resource() -> Resource {
        Resource::namespaced("", "v1", "ConfigMap", "configmaps")
    }
}

/// A Secret named after the ConfigMap it belongs to.
#[derive(Debug, Serialize, Deserialize)]
struct Recipe {
    metadata: ObjectMeta,
    #[serde(rename = "stringData", default)]
    text: BTreeMap<String, String>,
}

impl ResourceType for Recipe {
    fn resource() -> Resource {
        Resource::namespaced("", "v1", "Secret", "secrets")
    }
}

/// A kind that the controller does not watch.
#[derive(Debug, Serialize, Deserialize)]
struct Node {
    metadata: ObjectMeta,
}

impl ResourceType for Node {
    fn resource() -> Resource {
        Resource::cluster("", "v1", "Node", "nodes")
    }
}

/// Creates a recipe for each paint.
async fn write_recipe(paint: Arc<Paint>, context: Context<Paint>) -> anyhow::Result<Action> {
    let recipes = context.store_of::<Recipe>()?;
    if recipes.get(context.key()).is_none() {
        let mut recipe = Recipe {
            metadata: ObjectMeta::named(context.key().name()),
            text: [("colour".into(), format!("{:?}", paint.data.get("colour")))].into(),
        };
        recipe
            .metadata
            .owner_references
            .push(paint.owner_reference().into());
        let created = context.api().create(&recipe).await;
        created.context("the recipe cannot be written")?;
    }
    Ok(Action::Done)
}

struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Stopped>,
}

impl Running {
    fn start(controller: BoundController) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(controller.run(async {
            let _ = stopped.await;
        }));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.send(()).expect("still running");
        assert_eq!(self.task.await.expect("no panic").aborted, 0);
    }
}

async fn becomes(informer: &Informer<impl ResourceType>, condition: impl Fn(&Snapshot) -> bool) {
    let reached = tokio::time::timeout(SOON, informer.store().wait_until(condition));
    reached.await.expect("in time").expect("running");
}

async fn create_paint(cluster: &Cluster, name: &str, data: serde_json::Value) {
    let paint = serde_json::json!({"metadata": {"name": name}, "data": data});
    let created = cluster.maps().create(&paint).await;
    created.expect("it is created");
}

#[tokio::test(start_paused = true)]
async fn owned_objects_are_created_and_recreated() {
    let cluster = Cluster::start().await;
    let factory = Factory::new(cluster.client.clone(), Default::default());
    let recipes = factory.informer(Selection::of::<Recipe>());
    let controller = Controller::<Paint>::of(&factory).owns::<Recipe>();
    let running = Running::start(controller.reconcile(write_recipe));
    create_paint(&cluster, "wall", serde_json::json!({"colour": "green"})).await;
    let key = ObjectKey::new("default", "wall");
    becomes(&recipes, |state| state.get(&key).is_some()).await;
    let first = recipes.store().get(&key).expect("it was there");
    let api = cluster.client.api::<Recipe>().namespace("default");
    api.delete("wall").await.expect("it is deleted");
    becomes(&recipes, |state| {
        state
            .get(&key)
            .is_some_and(|recipe| recipe.uid() != first.metadata.uid)
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn undecodable_objects_are_not_reconciled_and_do_not_affect_others() {
    let cluster = Cluster::start().await;
    let factory = Factory::new(cluster.client.clone(), Default::default());
    let recipes = factory.informer(Selection::of::<Recipe>());
    let paints = factory.informer(Selection::of::<Paint>());
    create_paint(&cluster, "odd", serde_json::json!({"colour": "loud"})).await;
    create_paint(&cluster, "wall", serde_json::json!({"colour": "green"})).await;
    let controller = Controller::<Paint>::of(&factory).owns::<Recipe>();
    let running = Running::start(controller.reconcile(write_recipe));
    becomes(&recipes, |state| state.find("default", "wall").is_some()).await;
    let change = serde_json::json!({"data": {"colour": "red"}});
    let merge = watchkeeper_meta::PatchKind::Merge;
    let undecodable: Vec<_> = paints
        .store()
        .undecodable()
        .into_iter()
        .map(|odd| odd.key)
        .collect();
    assert_eq!(undecodable, [ObjectKey::new("default", "odd")]);
    let patched = cluster.maps().patch("odd", merge, &change).await;
    patched.expect("it is patched");
    becomes(&recipes, |state| state.find("default", "odd").is_some()).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watched_objects_trigger_the_objects_they_map_to() {
    let cluster = Cluster::start().await;
    let factory = Factory::new(cluster.client.clone(), Default::default());
    create_paint(&cluster, "wall", serde_json::json!({"colour": "green"})).await;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::<Paint>::of(&factory).watches::<Recipe>(|recipe| {
        let painted = recipe.metadata.labels.get("paints");
        painted
            .map(|name| ObjectKey::new("default", name))
            .into_iter()
            .collect()
    });
    let bound = controller.reconcile(move |_, context: Context<Paint>| {
        let sender = sender.clone();
        async move {
            let unknown = context.store_of::<Node>().unwrap_err().to_string();
            let known = context.store_of::<Recipe>()?.list().len();
            let _ = sender.send((context.key().to_string(), known, unknown));
            Ok::<_, anyhow::Error>(Action::Done)
        }
    });
    assert_eq!(bound.name(), "configmap");
    let running = Running::start(bound);
    let (key, known, unknown) = seen.recv().await.expect("the first list");
    assert_eq!((&*key, known), ("default/wall", 0));
    assert!(
        unknown.starts_with("the controller neither owns nor watches "),
        "{unknown}"
    );
    let mut recipe = Recipe {
        metadata: ObjectMeta::named("any"),
        text: Default::default(),
    };
    recipe.metadata.labels.insert("paints".into(), "wall".into());
    let api = cluster.client.api::<Recipe>().namespace("default");
    api.create(&recipe).await.expect("it is created");
    let (key, known, _) = seen.recv().await.expect("the recipe");
    assert_eq!((&*key, known), ("default/wall", 1));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_typed_object_stays_until_its_cleanup_is_done() {
    let cluster = Cluster::start().await;
    let factory = Factory::new(cluster.client.clone(), Default::default());
    let paints = factory.informer(Selection::of::<Paint>());
    let cleaned = Arc::new(AtomicUsize::new(0));
    let counter = cleaned.clone();
    let controller = Controller::<Paint>::of(&factory).reconcile(move |_, context: Context<Paint>| {
        let cleaned = counter.clone();
        async move {
            let step = context.finalizer(CLEANUP, async |phase| {
                if let Phase::Cleanup(paint) = phase {
                    anyhow::ensure!(paint.metadata.finalizers == [CLEANUP], "it is still there");
                    cleaned.fetch_add(1, Ordering::SeqCst);
                }
                Ok(Action::Done)
            });
            step.await
        }
    });
    let running = Running::start(controller);
    create_paint(&cluster, "wall", serde_json::json!({"colour": "green"})).await;
    let kept = |state: &Snapshot| {
        let wall = state.find("default", "wall");
        wall.is_some_and(|wall| wall.finalizers() == [CLEANUP])
    };
    becomes(&paints, kept).await;
    assert_eq!(cleaned.load(Ordering::SeqCst), 0);
    cluster.delete("wall").await;
    becomes(&paints, |state| state.find("default", "wall").is_none()).await;
    assert_eq!(cleaned.load(Ordering::SeqCst), 1);
    running.stop().await;
}
