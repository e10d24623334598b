//! Jobs: run pods to completion.
//!
//! A finished pod must be counted once, even if this program is stopped half-way. Therefore pods have a finalizer,
//! and counting takes three steps, each of which can be repeated:
//!
//! ```text
//! the pod's uid is recorded in the status  ▶  its finalizer is removed  ▶  the uid is replaced by one more in the count
//! ```
//!
//! Jobs with another controller in `managedBy` are ignored.

mod failure_policy;
mod indexes;
mod plan;
mod status;
mod tally;

use serde_json::{Value, json};
use watchkeeper_client::Error;
use watchkeeper_runtime::controller::{Action, Request};

use self::plan::Plan;
use self::tally::Tally;
use crate::cluster::{Cluster, Task, workload_selector};
use crate::events;
use crate::item::Item;
use crate::kinds::{jobs, pods};
use crate::pod_control::{self, is_namespace_terminating};
use crate::pods::{from_template, is_active};
use crate::time;

/// The finalizer that keeps a pod until it is counted.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// On a pod: its job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The completion index of a pod, as annotation and label.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// On a pod: the earlier failures of its index.
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The default controller of jobs.
const MANAGER: &str = "kubernetes.io/job-controller";
/// The environment variable with the completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Runs the controller.
pub(crate) fn run(cluster: &Cluster) -> Task {
    let controller = cluster
        .controller("jobs", &jobs())
        .owns(cluster.informer(&pods()), &jobs())
        .watches(cluster.informer(&pods()), cluster.adopting(&jobs()), None);
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
    if !matches!(job.text("/spec/managedBy"), "" | MANAGER) {
        return Ok(Action::Done);
    }
    let present = claim(&cluster, &job).await?;
    let (tally, counted) = Tally::take(&job, &present);
    let plan = Plan::of(&job, &present, &tally);
    let status = status::of(&job, &present, &tally, &plan);
    cluster.report(&jobs(), &job, status.clone()).await?;
    tell(&cluster, &job, &status);
    for pod in counted {
        cluster.drop_finalizer(&pods(), pod, TRACKING).await?;
    }
    for pod in &plan.surplus {
        pod_control::delete(&cluster, events::JOBS, &job, pod).await?;
    }
    for index in &plan.missing {
        create(&cluster, &job, *index, &present).await?;
    }
    Ok(plan.again.map_or(Action::Done, Action::After))
}

/// Removes the finalizer of pods that no job counts: their job is missing, being deleted, or has released them.
async fn release_strays(cluster: &Cluster, request: &Request) -> Result<(), Error> {
    let living = request.object.as_ref().filter(|job| !job.is_deleting());
    let known = cluster.snapshot(&pods());
    for pod in known.in_namespace(request.key.namespace()) {
        let is_stray = match pod.controller() {
            Some(owner) => {
                let is_namesake = owner.kind == "Job" && owner.name == request.key.name();
                is_namesake && living.is_none_or(|job| job.uid() != owner.uid)
            }
            None => {
                let is_named = pod.label(JOB_NAME).is_some_and(|job| job == request.key.name());
                let selector = living.and_then(|job| workload_selector(&Item::read(job)));
                is_named && selector.is_none_or(|selector| !selector.matches(&pod.header()))
            }
        };
        if is_stray {
            cluster.drop_finalizer(&pods(), pod, TRACKING).await?;
        }
    }
    Ok(())
}

/// The pods of a job, including adopted ones.
async fn claim(cluster: &Cluster, job: &Item) -> Result<Vec<Item>, Error> {
    let mut present = cluster.claim(job, &pods(), |_| true).await?;
    for pod in &mut present {
        let is_tracked = pod.finalizers().iter().any(|name| name == TRACKING);
        if !is_tracked && is_active(pod) {
            let patch = json!({"metadata": {"finalizers": [TRACKING]}});
            *pod = Item::read(&cluster.merge_lists(&pods(), pod, patch).await?);
        }
    }
    Ok(present)
}

/// Records an Event for every condition that has become true.
fn tell(cluster: &Cluster, job: &Item, status: &Value) {
    let events = &cluster.events;
    let conditions = status["conditions"].as_array().into_iter().flatten();
    for condition in conditions.filter(|condition| !job.list("/status/conditions").contains(condition)) {
        let text = |name: &str| condition[name].as_str().unwrap_or_default();
        match (text("type"), text("status")) {
            ("Complete", "True") => events.normal(events::JOBS, job, "Completed", "Job completed"),
            ("Failed", "True") => events.warning(events::JOBS, job, text("reason"), text("message")),
            ("Suspended", "True") => events.normal(events::JOBS, job, "Suspended", "Job suspended"),
            ("Suspended", _) => events.normal(events::JOBS, job, "Resumed", "Job resumed"),
            _ => {}
        }
    }
}

/// Deletes a job after its TTL.
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

async fn create(cluster: &Cluster, job: &Item, index: Option<u64>, present: &[Item]) -> Result<(), Error> {
    let mut pod = from_template(job, &job["spec"]["template"]);
    let mut prefix = job.name().to_owned();
    if let Some(index) = index {
        prefix = format!("{prefix}-{index}");
        pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
        pod["metadata"]["labels"][INDEX] = json!(index.to_string());
        if job.at("/spec/backoffLimitPerIndex").is_i64() {
            let failures = tally::failures_of(job, present, index);
            pod["metadata"]["annotations"][INDEX_FAILURES] = json!(failures.to_string());
        }
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
    match pod_control::create(cluster, events::JOBS, job, pod).await {
        Err(error) if is_namespace_terminating(&error) => Ok(()),
        created => created.map(drop),
    }
}

/// Sets the index variable of containers, unless they have one of that name.
fn tell_index(spec: &mut Value, containers: &str) {
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
