//! Replicas that divide tasks among themselves: while they crash, are cut off and come back, no task is worked on by
//! two of them, and none is forgotten.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_meta::{PatchKind, ShardField, ShardSelector};
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::sharding::{ShardOptions, ShardPart, ShardedController};
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::{Process, State};

use crate::support::{SEEDS, name, or_gone, task_resource, tasks, tasks_come_and_go, text, uid};

const SHARDS: u32 = 4;

fn simulation(replicas: usize) -> Simulation {
    tasks_come_and_go()
        .replicas("worker", replicas, worker)
        .heartbeat("Lease")
        .always("only the holder of a shard works on it", only_the_holder_works)
        .eventually("every task is done", every_task_is_done)
}

async fn worker(process: Process) {
    let client = process.client();
    let factory = Factory::new(client.clone(), FactoryOptions::default());
    let options = ShardOptions::new("tasks", process.name(), SHARDS);
    let sharded = ShardedController::new(&client.clone(), options, move |shard| {
        let own = Selection {
            shard: Some(ShardPart::Own(shard)),
            ..Selection::all(task_resource())
        };
        let controller = DynamicController::new("tasks", factory.informer(own), ControllerOptions::default());
        controller.reconcile(Worker {
            client: client.clone(),
        })
    });
    sharded.expect("good options").run(std::future::pending()).await;
}

/// Records the generation it has worked on.
struct Worker {
    client: Client,
}

impl Reconciler for Worker {
    type Error = Error;

    async fn reconcile(&self, request: Request) -> Result<Action, Error> {
        let Some(task) = request.object.map(|task| task.to_value().expect("JSON")) else {
            return Ok(Action::Done);
        };
        let done = &task["metadata"]["generation"];
        if task["status"]["done"] != *done {
            // Work takes a while, so that a hand-over can fall into it.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let patch = json!({"metadata": {"uid": uid(&task)}, "status": {"done": done}});
            let status = tasks(&self.client).subresource("status");
            or_gone(status.patch(name(&task), PatchKind::Merge, &patch).await)?;
        }
        Ok(Action::Done)
    }
}

fn only_the_holder_works(state: &State<'_>) -> Result<(), String> {
    let Some(write) = state
        .write()
        .filter(|write| write.kind == "Task" && write.user.starts_with("worker"))
    else {
        return Ok(());
    };
    let Some(task) = state.get("Task", "default", &write.name) else {
        return Ok(());
    };
    let is_in = |index: &u32| {
        ShardSelector::part(ShardField::Uid, *index, SHARDS).is_some_and(|shard| shard.has(uid(task)))
    };
    let shard = (0..SHARDS).find(is_in).expect("a shard");
    let lease = state.get("Lease", "default", &format!("tasks-shard-{shard}"));
    match lease.map_or("", |lease| text(lease, "/spec/holderIdentity")) {
        holder if holder == write.user => Ok(()),
        holder => Err(format!(
            "{} works on {}, and {holder:?} holds shard {shard}",
            write.user, write.name
        )),
    }
}

fn every_task_is_done(state: &State<'_>) -> Result<(), String> {
    let is_open = |task: &&Value| task["status"]["done"] != task["metadata"]["generation"];
    match state.all("Task").into_iter().find(is_open) {
        None => Ok(()),
        Some(task) => Err(format!("not {}", name(task))),
    }
}

#[test]
fn replicas_share_the_work_without_overlap_or_gap() {
    simulation(3).check(SEEDS);
}

#[test]
fn one_replica_does_all_the_work() {
    simulation(1).check(SEEDS);
}
