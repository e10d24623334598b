//! A pod is created, the answer is lost, and the pod is created again under another generated name.

use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::invariants;

use crate::support::{
    Reconcile, SEEDS, every_task_has_its_pod, finds, name, or_exists, owner, pod_of, pods, reconciles,
    tasks_come_and_go, uid,
};

fn simulation(reconcile: Reconcile) -> Simulation {
    tasks_come_and_go()
        .controller("runner", move |process| reconciles(process, reconcile))
        .always(
            "never two pods for one task",
            invariants::at_most_one_per_owner("Pod"),
        )
        .eventually("every task has its pod", every_task_has_its_pod)
}

/// Assumes that an error means that nothing has happened.
async fn careless(client: Client, task: Value) -> Result<(), Error> {
    let pods = pods(&client);
    let there = pods.list().await?;
    let mine = |pod: &Value| owner(pod) == uid(&task);
    if there.items.iter().any(|pod| mine(&pod.to_value().expect("JSON"))) {
        return Ok(());
    }
    let mut pod = pod_of(&task);
    let metadata = &mut pod["metadata"];
    metadata["name"] = Value::Null;
    metadata["generateName"] = json!(format!("{}-", name(&task)));
    while pods.create(&pod).await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// The name is derived from the task: a second pod would have the same name.
async fn careful(client: Client, task: Value) -> Result<(), Error> {
    or_exists(pods(&client).create(&pod_of(&task)).await)
}

#[test]
fn a_pod_created_twice_is_found() {
    let simulation = simulation(|client, task| careless(client, task).boxed());
    finds(
        &simulation,
        0,
        "always \"never two pods for one task\"",
        "lose-answer runner at write ",
    );
}

#[test]
fn a_name_derived_from_the_task_passes() {
    simulation(|client, task| careful(client, task).boxed()).check(SEEDS);
}
