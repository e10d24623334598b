//! A restarted controller reads an old list and takes the pod of a new task for an orphan.

use std::time::Duration;

use serde_json::Value;
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::{ListOptions, ResourceVersion};
use watchkeeper_server::Outcome;
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::{Process, State, invariants};

use crate::support::{
    SEEDS, every_task_has_its_pod, finds, name, or_exists, or_gone, owner, pod_of, pods, tasks,
    tasks_come_and_go, text, uid,
};

fn simulation(asks_again: bool) -> Simulation {
    tasks_come_and_go()
        .controller("keeper", move |process| keeper(process, asks_again))
        .always("the pod of a living task stays", pods_of_the_living_stay)
        .eventually("every task has its pod", every_task_has_its_pod)
        .eventually("no pod is left over", invariants::no_orphans("Pod"))
}

/// Checks every few seconds.
async fn keeper(process: Process, asks_again: bool) {
    let client = process.client();
    loop {
        // A failure is corrected by the next check.
        let _ = keep(&client, asks_again).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

/// Creates missing pods, and deletes those of deleted tasks.
async fn keep(client: &Client, asks_again: bool) -> Result<(), Error> {
    let cached = ListOptions {
        resource_version: ResourceVersion::new("0"),
        ..ListOptions::default()
    };
    let known = list(&tasks(client), &cached).await?;
    let there = list(&pods(client), &ListOptions::default()).await?;
    for task in &known {
        if !there.iter().any(|pod| owner(pod) == uid(task)) {
            or_exists(pods(client).create(&pod_of(task)).await)?;
        }
    }
    for pod in &there {
        let is_orphan = !known.iter().any(|task| owner(pod) == uid(task));
        if is_orphan && !(asks_again && is_alive(client, pod).await?) {
            or_gone(pods(client).delete(name(pod)).await)?;
        }
    }
    Ok(())
}

/// True if the task of a pod exists, by the most recent state.
async fn is_alive(client: &Client, pod: &Value) -> Result<bool, Error> {
    let task = text(pod, "/metadata/ownerReferences/0/name");
    let found = tasks(client).find(task).await?;
    let found = found.map(|task| task.to_value().expect("JSON"));
    Ok(found.is_some_and(|task| uid(&task) == owner(pod)))
}

async fn list(api: &DynamicApi, options: &ListOptions) -> Result<Vec<Value>, Error> {
    let list = api.list().with(options).await?;
    let values = list.items.iter().map(|item| item.to_value().expect("JSON"));
    Ok(values.collect())
}

fn pods_of_the_living_stay(state: &State<'_>) -> Result<(), String> {
    match state.write().map(|write| (write, &write.outcome)) {
        Some((write, Outcome::Deleted(gone)))
            if write.kind == "Pod" && state.by_uid(owner(gone)).is_some() =>
        {
            Err(format!("{} is deleted", write.name))
        }
        _ => Ok(()),
    }
}

#[test]
fn a_restart_against_a_stale_server_is_found() {
    finds(
        &simulation(false),
        20,
        "always \"the pod of a living task stays\"",
        "behind",
    );
}

#[test]
fn a_controller_that_rereads_before_deleting_passes() {
    simulation(true).check(SEEDS);
}
