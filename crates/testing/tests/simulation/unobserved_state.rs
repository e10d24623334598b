//! A task is deleted while nobody watches: a controller that waits for the event waits forever.

use std::time::Duration;

use watchkeeper_client::{Client, Error, WatchEvent};
use watchkeeper_meta::WatchOptions;
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::{Process, invariants};
use watchkeeper_wire::Object;

use crate::support::{
    SEEDS, every_task_has_its_pod, finds, name, or_exists, or_gone, owner, pod_of, pods, tasks,
    tasks_come_and_go, uid,
};

fn simulation(compares: bool) -> Simulation {
    tasks_come_and_go()
        .controller("cleaner", move |process| cleaner(process, compares))
        .eventually("every task has its pod", every_task_has_its_pod)
        .eventually("no pod is left over", invariants::no_orphans("Pod"))
}

async fn cleaner(process: Process, compares: bool) {
    let client = process.client();
    loop {
        // After a watch ends, it starts again with a list.
        let _ = list_and_watch(&client, compares).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn list_and_watch(client: &Client, compares: bool) -> Result<(), Error> {
    let list = tasks(client).list().await?;
    for task in &list.items {
        start(client, task).await?;
    }
    if compares {
        delete_orphans(client, &list.items).await?;
    }
    let options = WatchOptions {
        resource_version: list.head.resource_version.clone(),
        ..WatchOptions::default()
    };
    let mut watch = tasks(client).watch().with(&options).await?;
    while let Some(event) = watch.next().await {
        match event? {
            WatchEvent::Added(task) | WatchEvent::Modified(task) => start(client, &task).await?,
            WatchEvent::Deleted(task) => or_gone(pods(client).delete(task.name()).await)?,
            _ => return Ok(()),
        }
    }
    Ok(())
}

async fn start(client: &Client, task: &Object) -> Result<(), Error> {
    let task = task.to_value().expect("JSON");
    or_exists(pods(client).create(&pod_of(&task)).await)
}

/// Deletes the pods of deleted tasks. The list is current, so a task that is not in it was deleted or created later.
async fn delete_orphans(client: &Client, known: &[Object]) -> Result<(), Error> {
    let known: Vec<_> = known.iter().map(|task| task.to_value().expect("JSON")).collect();
    for pod in pods(client).list().await?.items {
        let pod = pod.to_value().expect("JSON");
        if !known.iter().any(|task| uid(task) == owner(&pod)) {
            or_gone(pods(client).delete(name(&pod)).await)?;
        }
    }
    Ok(())
}

#[test]
fn a_missed_event_is_found() {
    finds(
        &simulation(false),
        0,
        "eventually \"no pod is left over\"",
        "cleaner at",
    );
}

#[test]
fn a_controller_that_compares_lists_passes() {
    simulation(true).check(SEEDS);
}
