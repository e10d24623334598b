//! Jobs: pods that run to their end, so many times.
//!
//! A pod that has ended must be counted once, even if this program is stopped half-way. So its pods carry a
//! finalizer, and counting takes three steps, each of which can be repeated:
//!
//! ```text
//! the pod's uid is noted in the status  ▶  its finalizer is taken off  ▶  the note becomes one more in the count
//! ```
//!
//! Not simulated: success policies, failure policies, and backoff limits per index.

mod indexes;
mod plan;
mod status;
mod tally;

use serde_json::json;
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};

use self::plan::Plan;
use self::tally::Tally;
use crate::cluster::{Cluster, Task};
use crate::item::Item;
use crate::kinds::{jobs, pods};
use crate::pods::from_template;
use crate::time;

/// Keeps a pod until it is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// On a pod, the job it is of.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// Which of the completions a pod is for, as annotation and label.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// What the containers of a pod know it by.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Runs jobs.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("jobs", &jobs())
        .owns(cluster.informer(&pods()), &jobs());
    cluster.run(controller, reconcile)
}

async fn reconcile(cluster: Cluster, request: Request) -> Result<Action, Error> {
    release_strays(&cluster, &request).await?;
    let Some(job) = Item::living(&request) else {
        return Ok(Action::Done);
    };
    if status::is_finished(&job) {
        return expire(&cluster, &job).await;
    }
    let present = cluster.controlled_by(&job, &pods());
    let (tally, counted) = Tally::take(&job, &present);
    let plan = Plan::of(&job, &present, &tally);
    let status = status::of(&job, &present, &tally, &plan);
    cluster.report(&jobs(), &job, status).await?;
    for pod in counted {
        cluster.drop_finalizer(&pods(), pod, TRACKING).await?;
    }
    for pod in &plan.surplus {
        cluster.delete(&pods(), pod, None).await?;
    }
    for index in &plan.missing {
        create(&cluster, &job, *index).await?;
    }
    Ok(plan.again.map_or(Action::Done, Action::After))
}

/// Lets the pods go that nobody counts: those of a job of this name that is gone, or on its way, or has left them.
async fn release_strays(cluster: &Cluster, request: &Request) -> Result<(), Error> {
    let living = request.object.as_ref().filter(|job| !job.is_deleting());
    let known = cluster.snapshot(&pods());
    for pod in known.in_namespace(request.key.namespace()) {
        let is_stray = match pod.controller() {
            Some(owner) => {
                let is_namesake = owner.kind == "Job" && owner.name == request.key.name();
                is_namesake && living.is_none_or(|job| job.uid() != owner.uid)
            }
            None => pod.label(JOB_NAME).is_some_and(|job| job == request.key.name()),
        };
        if is_stray {
            cluster.drop_finalizer(&pods(), pod, TRACKING).await?;
        }
    }
    Ok(())
}

/// Removes a job whose time after its end is over.
async fn expire(cluster: &Cluster, job: &Item) -> Result<Action, Error> {
    let Some(seconds) = job.at("/spec/ttlSecondsAfterFinished").as_i64() else {
        return Ok(Action::Done);
    };
    if let Some(left) = status::finished_at(job).and_then(|end| time::left(end, seconds)) {
        return Ok(Action::After(left));
    }
    cluster.delete(&jobs(), job, None).await?;
    Ok(Action::Done)
}

async fn create(cluster: &Cluster, job: &Item, index: Option<u64>) -> Result<(), Error> {
    let mut pod = from_template(job, &job["spec"]["template"]);
    let mut prefix = job.name().to_owned();
    if let Some(index) = index {
        prefix = format!("{prefix}-{index}");
        pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
        pod["metadata"]["labels"][INDEX] = json!(index.to_string());
        pod["spec"]["hostname"] = json!(prefix);
        tell_index(&mut pod["spec"], "initContainers");
        tell_index(&mut pod["spec"], "containers");
    }
    pod["metadata"]["generateName"] = json!(format!("{prefix}-"));
    let mut finalizers = pod["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    finalizers.push(json!(TRACKING));
    pod["metadata"]["finalizers"] = json!(finalizers);
    cluster.create(&pods(), job.namespace(), pod).await.map(drop)
}

/// Gives containers their index, unless they have another variable of that name.
fn tell_index(spec: &mut serde_json::Value, containers: &str) {
    let path = format!("metadata.labels['{INDEX}']");
    let variable =
        json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    for container in spec[containers].as_array_mut().into_iter().flatten() {
        let mut known = container["env"].as_array().cloned().unwrap_or_default();
        if !known.iter().any(|known| known["name"] == INDEX_VARIABLE) {
            known.push(variable.clone());
            container["env"] = json!(known);
        }
    }
}
