//! A controller whose cache does not yet show the pod it has created, so that it creates another one.
//!
//! It reads its pods from an informer, as controllers should, and gives them generated names, as ReplicaSets do. Late
//! events of its pods are all it takes. Read-your-writes, which is on by default, removes this class of bugs; a lost
//! answer is another one (`lost_answer.rs`).

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::store::Store;
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::{Fault, Plan, Process, Trouble, invariants};

use crate::support::{
    every_task_has_its_pod, name, or_gone, owner, pod_of, pod_resource, pods, task_resource,
    tasks_come_and_go, uid,
};

/// Late events at every early point of the run.
fn plans() -> impl Iterator<Item = Plan> {
    let late = |event, seconds| Fault {
        process: "runner".to_owned(),
        trouble: Trouble::LateEvents {
            event,
            by: Duration::from_secs(seconds),
        },
    };
    let plan = move |seed, event, seconds| Plan {
        seed,
        faults: vec![late(event, seconds)],
    };
    let points = (1..=8).flat_map(|event| [(event, 10), (event, 60)]);
    points.flat_map(move |(event, seconds)| (0..2).map(move |seed| plan(seed, event, seconds)))
}

fn simulation(reads_own_writes: bool) -> Simulation {
    tasks_come_and_go()
        .controller("runner", move |process| runner(process, reads_own_writes))
        .always(
            "never two pods for one task",
            invariants::at_most_one_per_owner("Pod"),
        )
        .eventually("every task has its pod", every_task_has_its_pod)
}

async fn runner(process: Process, reads_own_writes: bool) {
    let client = process.client();
    let factory = Factory::new(client.clone(), FactoryOptions::default());
    let options = ControllerOptions::default();
    let options = ControllerOptions {
        own_writes: options.own_writes.filter(|_| reads_own_writes),
        ..options
    };
    let children = factory.informer(Selection::all(pod_resource()));
    let store = children.store().clone();
    let controller = DynamicController::new(
        "tasks",
        factory.informer(Selection::all(task_resource())),
        options,
    )
    .owns(children, &task_resource());
    controller
        .run(Runner { client, store }, std::future::pending())
        .await;
}

struct Runner {
    client: Client,
    store: Store,
}

impl Reconciler for Runner {
    type Error = Error;

    async fn reconcile(&self, request: Request) -> Result<Action, Error> {
        let client = request.writes.client(&self.client);
        let known: Vec<Value> = self
            .store
            .list()
            .iter()
            .map(|pod| pod.to_value().expect("JSON"))
            .collect();
        match request.object {
            Some(task) => start(&client, &task.to_value().expect("JSON"), &known).await?,
            // The pods of a deleted task have its name as a prefix.
            None => {
                let prefix = format!("{}-", request.key.name());
                for pod in known.iter().filter(|pod| name(pod).starts_with(&prefix)) {
                    or_gone(pods(&client).delete(name(pod)).await)?;
                }
            }
        }
        Ok(Action::Done)
    }
}

/// Creates the pod of a task, unless the cache has one.
async fn start(client: &Client, task: &Value, known: &[Value]) -> Result<(), Error> {
    if known.iter().any(|pod| owner(pod) == uid(task)) {
        return Ok(());
    }
    let mut pod = pod_of(task);
    pod["metadata"]["name"] = Value::Null;
    pod["metadata"]["generateName"] = json!(format!("{}-", name(task)));
    pods(client).create(&pod).await.map(drop)
}

/// The failures of the plans, one run at a time.
fn failures(simulation: &Simulation) -> impl Iterator<Item = String> {
    plans().filter_map(|plan| {
        let run = simulation.run(&plan);
        run.failure.map(|failure| format!("{}: {failure:?}", run.plan))
    })
}

#[test]
fn a_cache_without_own_writes_leads_to_a_second_pod() {
    let simulation = simulation(false);
    let mut told = Vec::new();
    let is_found = failures(&simulation).any(|failure| {
        let is_found = failure.contains("never two pods for one task");
        told.push(failure);
        is_found
    });
    assert!(is_found, "{told:#?}");
}

#[test]
fn a_controller_that_reads_its_own_writes_is_clean() {
    let told: Vec<String> = failures(&simulation(true)).collect();
    assert!(told.is_empty(), "{told:#?}");
}
