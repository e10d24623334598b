//! Tasks and pods, a workload on them, and helpers for controllers.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::{PatchKind, Resource};
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::watcher::{Config, ListSemantic};
use watchkeeper_testing::simulation::{Finding, Process, Simulation, State};

/// The number of seeds a careful controller must pass; `.ci/run` tries more, with `WATCHKEEPER_SEEDS`.
pub(crate) const SEEDS: u64 = 4;

/// The number of seeds searched for a bug.
pub(crate) const SEARCHED: u64 = 2000;

const TASKS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tasks.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Task, plural: tasks}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// A cluster with tasks that are created, changed and deleted.
pub(crate) fn tasks_come_and_go() -> Simulation {
    Simulation::new().manifest(TASKS).workload(come_and_go)
}

/// Finds a bug, and checks that the report names its cause. Searches from a seed on, one shortly before the first that
/// fails, so that a bug that is seldom met is found in a short test too.
pub(crate) fn finds(simulation: &Simulation, from: u64, failure: &str, fault: &str) -> Finding {
    let found = simulation
        .search(from..from + SEARCHED)
        .expect("a seed that fails");
    let told = found.to_string();
    assert!(told.contains(failure), "{told}");
    assert!((1..=2).contains(&found.run.plan.faults.len()), "{told}");
    assert!(found.run.plan.to_string().contains(fault), "{told}");
    found
}

async fn come_and_go(user: Process, mut rng: Rng) {
    let tasks = tasks(&user.client());
    for name in ["a", "b", "c"] {
        let task = json!({"apiVersion": "example.com/v1", "kind": "Task", "metadata": {"name": name}, "spec": {"size": 1}});
        tasks.create(&task).await.unwrap();
        pause(&mut rng).await;
        for size in 2..rng.u32(2..5) {
            let patch = json!({"spec": {"size": size}});
            tasks.patch(name, PatchKind::Merge, &patch).await.unwrap();
            pause(&mut rng).await;
        }
    }
    for name in ["a", "b"] {
        tasks.delete(name).await.unwrap();
        pause(&mut rng).await;
    }
}

async fn pause(rng: &mut Rng) {
    tokio::time::sleep(Duration::from_millis(rng.u64(..5000))).await;
}

pub(crate) type Reconcile = fn(Client, Value) -> BoxFuture<'static, Result<(), Error>>;

struct Each {
    client: Client,
    reconcile: Reconcile,
}

impl Reconciler for Each {
    type Error = Error;

    async fn reconcile(&self, request: Request) -> Result<Action, Error> {
        if let Some(task) = request.object {
            let task = task.to_value().expect("JSON");
            (self.reconcile)(self.client.clone(), task).await?;
        }
        Ok(Action::Done)
    }
}

/// Reconciles tasks from a cache whose first list may be old (`resourceVersion=0`), as in client-go.
pub(crate) async fn reconciles(process: Process, reconcile: Reconcile) {
    let config = Config {
        list_semantic: ListSemantic::Any,
        ..Config::paged()
    };
    let options = FactoryOptions {
        informer: config.into(),
        ..FactoryOptions::default()
    };
    let client = process.client();
    let factory = Factory::new(client.clone(), options);
    let informer = factory.informer(Selection::all(task_resource()));
    let controller = DynamicController::new("tasks", informer, ControllerOptions::default());
    let each = Each { client, reconcile };
    controller.run(each, std::future::pending()).await;
}

fn resource(group: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource::namespaced(group, "v1", kind, plural)
}

pub(crate) fn task_resource() -> Resource {
    resource("example.com", "Task", "tasks")
}

pub(crate) fn tasks(client: &Client) -> DynamicApi {
    client.dynamic(task_resource()).namespace("default")
}

pub(crate) fn pod_resource() -> Resource {
    resource("", "Pod", "pods")
}

pub(crate) fn pods(client: &Client) -> DynamicApi {
    client.dynamic(pod_resource()).namespace("default")
}

pub(crate) fn maps(client: &Client) -> DynamicApi {
    client
        .dynamic(resource("", "ConfigMap", "configmaps"))
        .namespace("default")
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// A pod that belongs to a task.
pub(crate) fn pod_of(task: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(task),
            "ownerReferences": [{
                "apiVersion": "example.com/v1",
                "kind": "Task",
                "name": name(task),
                "uid": uid(task),
                "controller": true,
            }],
        },
        "spec": {"containers": [{"name": "work", "image": "work"}]},
    })
}

/// The uid of a pod's task.
pub(crate) fn owner(pod: &Value) -> &str {
    text(pod, "/metadata/ownerReferences/0/uid")
}

/// Ignores that an object exists already.
pub(crate) fn or_exists<T>(created: Result<T, Error>) -> Result<(), Error> {
    match created {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

/// Ignores that an object is already gone.
pub(crate) fn or_gone<T>(deleted: Result<T, Error>) -> Result<(), Error> {
    match deleted {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Every task has its own pod.
pub(crate) fn every_task_has_its_pod(state: &State<'_>) -> Result<(), String> {
    let pods = state.all("Pod");
    let has_pod = |task: &&Value| pods.iter().any(|pod| owner(pod) == uid(task));
    match state.all("Task").into_iter().find(|task| !has_pod(task)) {
        None => Ok(()),
        Some(task) => Err(format!("{} has none", name(task))),
    }
}
