//! A finalizer removed before the clean-up: after a crash, nobody knows what to clean up.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_meta::PatchKind;
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::{State, invariants};

use crate::support::{
    Reconcile, SEEDS, finds, maps, name, or_exists, or_gone, reconciles, tasks, tasks_come_and_go, text, uid,
};

const FINALIZER: &str = "example.com/bucket";

fn simulation(reconcile: Reconcile) -> Simulation {
    tasks_come_and_go()
        .controller("buckets", move |process| reconciles(process, reconcile))
        .eventually("no bucket is left over", no_bucket_is_left_over)
        .eventually("every task can go", invariants::nothing_is_stuck_deleting("Task"))
}

fn no_bucket_is_left_over(state: &State<'_>) -> Result<(), String> {
    let is_left = |bucket: &&Value| state.by_uid(text(bucket, "/data/task")).is_none();
    match state.all("ConfigMap").into_iter().find(is_left) {
        None => Ok(()),
        Some(bucket) => Err(format!("{} is left", name(bucket))),
    }
}

/// A resource outside of the cluster, unknown to the garbage collector, represented by a config map.
async fn make_bucket(client: &Client, task: &Value) -> Result<(), Error> {
    let bucket = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": uid(task)},
        "data": {"task": uid(task)},
    });
    or_exists(maps(client).create(&bucket).await)
}

async fn delete_bucket(client: &Client, task: &Value) -> Result<(), Error> {
    or_gone(maps(client).delete(uid(task)).await)
}

/// Replaces the finalizers of the task that was read, not of a later one of that name.
async fn set_finalizers(client: &Client, task: &Value, finalizers: &[&str]) -> Result<(), Error> {
    let patch = json!({"metadata": {
        "uid": uid(task),
        "resourceVersion": text(task, "/metadata/resourceVersion"),
        "finalizers": finalizers,
    }});
    tasks(client)
        .patch(name(task), PatchKind::Merge, &patch)
        .await
        .map(drop)
}

/// Decides by the current task, not the cached one: a bucket for a deleted task would stay forever.
async fn reconcile(client: Client, cached: Value, removes_first: bool) -> Result<(), Error> {
    let Some(task) = tasks(&client).find(name(&cached)).await? else {
        return Ok(());
    };
    let task = task.to_value().expect("JSON");
    let is_held = task["metadata"]["finalizers"] == json!([FINALIZER]);
    let is_going = task["metadata"]["deletionTimestamp"].is_string();
    match (is_going, is_held) {
        (false, false) => or_gone(set_finalizers(&client, &task, &[FINALIZER]).await),
        (false, true) => make_bucket(&client, &task).await,
        (true, true) if removes_first => {
            set_finalizers(&client, &task, &[]).await?;
            delete_bucket(&client, &task).await
        }
        (true, true) => {
            delete_bucket(&client, &task).await?;
            or_gone(set_finalizers(&client, &task, &[]).await)
        }
        (true, false) => Ok(()),
    }
}

#[test]
fn a_finalizer_removed_too_early_is_found() {
    let simulation = simulation(|client, task| reconcile(client, task, true).boxed());
    finds(
        &simulation,
        145,
        "eventually \"no bucket is left over\"",
        "buckets at write ",
    );
}

#[test]
fn a_finalizer_removed_last_passes() {
    simulation(|client, task| reconcile(client, task, false).boxed()).check(SEEDS);
}
