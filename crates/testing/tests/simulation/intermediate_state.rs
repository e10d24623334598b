//! A crash between two writes leaves a state the controller never expected: a starting task without a pod.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_meta::PatchKind;
use watchkeeper_testing::Simulation;

use crate::support::{
    Reconcile, SEEDS, every_task_has_its_pod, finds, name, or_exists, pod_of, pods, reconciles, tasks,
    tasks_come_and_go,
};

fn simulation(reconcile: Reconcile) -> Simulation {
    tasks_come_and_go()
        .controller("starter", move |process| reconciles(process, reconcile))
        .eventually("every task has its pod", every_task_has_its_pod)
}

async fn note_start(client: &Client, task: &Value) -> Result<(), Error> {
    let status = tasks(client).subresource("status");
    let patch = json!({"status": {"phase": "Starting"}});
    status.patch(name(task), PatchKind::Merge, &patch).await.map(drop)
}

/// Assumes that a starting task was started.
async fn careless(client: Client, task: Value) -> Result<(), Error> {
    if task["status"]["phase"].is_null() {
        note_start(&client, &task).await?;
        pods(&client).create(&pod_of(&task)).await?;
    }
    Ok(())
}

/// Looks for the pod, not at the phase.
async fn careful(client: Client, task: Value) -> Result<(), Error> {
    or_exists(pods(&client).create(&pod_of(&task)).await)?;
    match task["status"]["phase"].is_null() {
        true => note_start(&client, &task).await,
        false => Ok(()),
    }
}

#[test]
fn a_crash_between_two_writes_is_found() {
    let simulation = simulation(|client, task| careless(client, task).boxed());
    let found = finds(
        &simulation,
        18,
        "eventually \"every task has its pod\"",
        "starter at",
    );
    assert!(found.to_string().contains("starter#1"), "{found}");
    // Whatever was found first: a crash between the two writes for the remaining task also reproduces it.
    let crash = "1: crash starter at write 5 for 0s".parse().unwrap();
    let told = simulation.run(&crash);
    let trace = told.trace.to_string();
    assert!(told.failure.is_some(), "{trace}");
    let lines = [
        "starter#1      patch Task/status default/c: status - → {\"phase\":\"Starting\"} (version ",
        "starter#1      crashes",
        "starter#2      starts",
    ];
    lines
        .iter()
        .for_each(|line| assert!(trace.contains(line), "{line}\n{trace}"));
}

#[test]
fn a_controller_that_checks_for_the_pod_passes() {
    simulation(|client, task| careful(client, task).boxed()).check(SEEDS);
}
