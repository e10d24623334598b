//! A status written from a stale cache: the observed generation goes back.

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use watchkeeper_client::{Client, Error};
use watchkeeper_meta::PatchKind;
use watchkeeper_server::Outcome;
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::State;

use crate::support::{Reconcile, SEEDS, finds, name, or_gone, reconciles, tasks, tasks_come_and_go, text};

fn simulation(reconcile: Reconcile) -> Simulation {
    tasks_come_and_go()
        .controller("observer", move |process| reconciles(process, reconcile))
        .always("what was observed never goes back", never_goes_back)
        .eventually("the newest is observed", the_newest_is_observed)
}

fn never_goes_back(state: &State<'_>) -> Result<(), String> {
    let Some(Outcome::Changed(fields)) = state.write().map(|write| &write.outcome) else {
        return Ok(());
    };
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_i64);
    match fields
        .iter()
        .find(|field| field.path == "status.observedGeneration")
    {
        Some(field) if number(&field.after) < number(&field.before) => Err(field.to_string()),
        _ => Ok(()),
    }
}

fn the_newest_is_observed(state: &State<'_>) -> Result<(), String> {
    let is_behind = |task: &&Value| task["status"]["observedGeneration"] != task["metadata"]["generation"];
    match state.all("Task").into_iter().find(is_behind) {
        None => Ok(()),
        Some(task) => Err(format!("not of {}", name(task))),
    }
}

async fn reconcile(client: Client, task: Value, says_version: bool) -> Result<(), Error> {
    let seen = &task["metadata"]["generation"];
    if task["status"]["observedGeneration"] == *seen {
        return Ok(());
    }
    let mut patch = json!({"status": {"observedGeneration": seen}});
    if says_version {
        patch["metadata"]["resourceVersion"] = json!(text(&task, "/metadata/resourceVersion"));
    }
    let status = tasks(&client).subresource("status");
    or_gone(status.patch(name(&task), PatchKind::Merge, &patch).await)
}

#[test]
fn a_status_from_a_stale_cache_is_found() {
    let simulation = simulation(|client, task| reconcile(client, task, false).boxed());
    finds(
        &simulation,
        1210,
        "always \"what was observed never goes back\"",
        "observer at",
    );
}

#[test]
fn a_status_write_with_its_version_passes() {
    simulation(|client, task| reconcile(client, task, true).boxed()).check(SEEDS);
}
