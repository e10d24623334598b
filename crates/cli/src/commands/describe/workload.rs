//! Deployments, replica sets, stateful sets, daemon sets, jobs and cron jobs.

use serde_json::Value;
use watchkeeper_meta::ListOptions;

use super::page::{Page, capital, items, joined, moment, pairs, selector, text, text_or, time};
use super::{controlled_by, list, pod};
use crate::cluster::Cluster;
use crate::failure::Failure;

/// A deployment, with its replica sets.
pub(super) async fn deployment(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.field(0, "CreationTimestamp", moment(&metadata["creationTimestamp"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    page.field(0, "Selector", selector(&spec["selector"]));
    let count = |field: &str| text_or(&status[field], "0");
    page.field(
        0,
        "Replicas",
        format!(
            "{} desired | {} updated | {} total | {} available | {} unavailable",
            text_or(&spec["replicas"], "0"),
            count("updatedReplicas"),
            count("replicas"),
            count("availableReplicas"),
            count("unavailableReplicas")
        ),
    );
    page.field(0, "StrategyType", text(&spec["strategy"]["type"]));
    page.field(0, "MinReadySeconds", text_or(&spec["minReadySeconds"], "0"));
    let rolling = &spec["strategy"]["rollingUpdate"];
    if !rolling.is_null() {
        let (unavailable, surge) = (text(&rolling["maxUnavailable"]), text(&rolling["maxSurge"]));
        page.field(
            0,
            "RollingUpdateStrategy",
            format!("{unavailable} max unavailable, {surge} max surge"),
        );
    }
    pod::template(&spec["template"], page);
    conditions(status, page);
    replica_sets(object, cluster, page).await
}

async fn replica_sets(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let owned = crate::owned::replica_sets(object, cluster).await?;
    let line = |set: &Value| {
        let created = text_or(&set["status"]["replicas"], "0");
        let wanted = text_or(&set["spec"]["replicas"], "0");
        format!(
            "{} ({created}/{wanted} replicas created)",
            text(&set["metadata"]["name"])
        )
    };
    let newest = crate::owned::current(object, &owned);
    let is_new =
        |set: &&Value| newest.is_some_and(|newest| newest["metadata"]["uid"] == set["metadata"]["uid"]);
    let old: Vec<_> = owned.iter().filter(|set| !is_new(set)).map(line).collect();
    let or_none = |lines: Vec<String>| match lines.is_empty() {
        true => "<none>".to_owned(),
        false => lines.join(", "),
    };
    page.field(0, "OldReplicaSets", or_none(old));
    page.field(
        0,
        "NewReplicaSet",
        or_none(newest.map(line).into_iter().collect()),
    );
    Ok(())
}

fn conditions(status: &Value, page: &mut Page) {
    let conditions = items(&status["conditions"]);
    if conditions.is_empty() {
        return;
    }
    let row = |condition: &Value| {
        let (kind, is, reason) = (&condition["type"], &condition["status"], &condition["reason"]);
        vec![format!("{} ", text(kind)), text(is), text(reason)]
    };
    page.line(0, "Conditions:");
    page.table(1, &["Type", "Status", "Reason"], conditions.iter().map(row));
}

/// A replica set, with the phases of its pods.
pub(super) async fn replica_set(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.field(0, "Selector", selector(&spec["selector"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    controlled_by(metadata, page);
    let (current, desired) = (text_or(&status["replicas"], "0"), text_or(&spec["replicas"], "0"));
    page.field(0, "Replicas", format!("{current} current / {desired} desired"));
    let phases = phases(object, cluster).await?;
    page.field(0, "Pods Status", phases);
    pod::template(&spec["template"], page);
    conditions(status, page);
    Ok(())
}

/// How many of a workload's own pods are in which phase.
async fn phases(object: &Value, cluster: &Cluster) -> Result<String, Failure> {
    let metadata = &object["metadata"];
    let options = ListOptions {
        label_selector: selector(&object["spec"]["selector"])
            .parse()
            .map_err(Failure::text)?,
        ..Default::default()
    };
    let pods = list(cluster, "", "pods", &text(&metadata["namespace"]), &options).await?;
    let own: Vec<_> = pods
        .iter()
        .filter(|pod| {
            items(&pod["metadata"]["ownerReferences"])
                .iter()
                .any(|owner| owner["uid"] == metadata["uid"])
        })
        .collect();
    let count = |phase: &str| own.iter().filter(|pod| pod["status"]["phase"] == phase).count();
    Ok(format!(
        "{} Running / {} Waiting / {} Succeeded / {} Failed",
        count("Running"),
        count("Pending"),
        count("Succeeded"),
        count("Failed")
    ))
}

/// A stateful set, with the claims of its pods.
pub(super) async fn stateful_set(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.field(0, "CreationTimestamp", moment(&metadata["creationTimestamp"]));
    page.field(0, "Selector", selector(&spec["selector"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    let (desired, total) = (text_or(&spec["replicas"], "0"), text_or(&status["replicas"], "0"));
    page.field(0, "Replicas", format!("{desired} desired | {total} total"));
    page.field(0, "Update Strategy", text(&spec["updateStrategy"]["type"]));
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    if !rolling["partition"].is_null() {
        page.field(1, "Partition", text(&rolling["partition"]));
        page.field_if(1, "MaxUnavailable", &rolling["maxUnavailable"]);
    }
    page.field(0, "Pods Status", phases(object, cluster).await?);
    pod::template(&spec["template"], page);
    claims(&spec["volumeClaimTemplates"], page);
    Ok(())
}

fn claims(templates: &Value, page: &mut Page) {
    let templates = items(templates);
    if templates.is_empty() {
        return page.field(0, "Volume Claims", "<none>");
    }
    page.line(0, "Volume Claims:");
    for template in templates {
        let (metadata, spec) = (&template["metadata"], &template["spec"]);
        page.field(1, "Name", text(&metadata["name"]));
        page.field(1, "StorageClass", text(&spec["storageClassName"]));
        page.labels(1, "Labels", &metadata["labels"]);
        page.annotations(1, &metadata["annotations"]);
        let capacity = text_or(&spec["resources"]["requests"]["storage"], "<default>");
        page.field(1, "Capacity", capacity);
        let modes: Vec<_> = items(&spec["accessModes"]).iter().map(text).collect();
        page.field(1, "Access Modes", format!("[{}]", modes.join(" ")));
    }
}

/// A daemon set, with the counts of its nodes.
pub(super) async fn daemon_set(object: &Value, cluster: &Cluster, page: &mut Page) -> Result<(), Failure> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Selector", selector(&spec["selector"]));
    let nodes = pairs(&spec["template"]["spec"]["nodeSelector"], "=");
    page.field(0, "Node-Selector", joined(&nodes, "<none>"));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    for (title, field) in [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        (
            "Number of Nodes Scheduled with Up-to-date Pods",
            "updatedNumberScheduled",
        ),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ] {
        page.line(0, format!("{title}: {}", text_or(&status[field], "0")));
    }
    page.field(0, "Pods Status", phases(object, cluster).await?);
    pod::template(&spec["template"], page);
    Ok(())
}

/// A cron job, with the template of its jobs.
pub(super) fn cron_job(object: &Value, page: &mut Page) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    page.field(0, "Schedule", text(&spec["schedule"]));
    page.field_if(0, "Time Zone", &spec["timeZone"]);
    page.field(0, "Concurrency Policy", text(&spec["concurrencyPolicy"]));
    page.field(0, "Suspend", capital(&spec["suspend"]));
    let or_unset = |value: &Value| text_or(value, "<unset>");
    page.field(
        0,
        "Successful Job History Limit",
        or_unset(&spec["successfulJobsHistoryLimit"]),
    );
    page.field(
        0,
        "Failed Job History Limit",
        or_unset(&spec["failedJobsHistoryLimit"]),
    );
    let deadline = match &spec["startingDeadlineSeconds"] {
        Value::Null => "<unset>".to_owned(),
        seconds => format!("{seconds}s"),
    };
    page.field(0, "Starting Deadline Seconds", deadline);
    let job = &spec["jobTemplate"]["spec"];
    let labels = match &job["selector"] {
        Value::Null => "<unset>".to_owned(),
        labels => selector(labels),
    };
    page.field(0, "Selector", labels);
    page.field(0, "Parallelism", or_unset(&job["parallelism"]));
    page.field(0, "Completions", or_unset(&job["completions"]));
    if !job["activeDeadlineSeconds"].is_null() {
        page.field(
            0,
            "Active Deadline Seconds",
            format!("{}s", job["activeDeadlineSeconds"]),
        );
    }
    pod::template(&job["template"], page);
    page.field(0, "Last Schedule Time", moment(&status["lastScheduleTime"]));
    let active: Vec<_> = items(&status["active"])
        .iter()
        .map(|job| text(&job["name"]))
        .collect();
    let active = if active.is_empty() {
        "<none>".to_owned()
    } else {
        active.join(", ")
    };
    page.field(0, "Active Jobs", active);
}

/// A job.
pub(super) fn job(object: &Value, page: &mut Page) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", text(&metadata["name"]));
    page.field(0, "Namespace", text(&metadata["namespace"]));
    page.field(0, "Selector", selector(&spec["selector"]));
    page.labels(0, "Labels", &metadata["labels"]);
    page.annotations(0, &metadata["annotations"]);
    controlled_by(metadata, page);
    page.field_if(0, "Parallelism", &spec["parallelism"]);
    page.field(0, "Completions", text_or(&spec["completions"], "<unset>"));
    page.field_if(0, "Completion Mode", &spec["completionMode"]);
    page.field_if(0, "Suspend", &spec["suspend"]);
    page.field_if(0, "Backoff Limit", &spec["backoffLimit"]);
    page.field_if(0, "TTL Seconds After Finished", &spec["ttlSecondsAfterFinished"]);
    if !status["startTime"].is_null() {
        page.field(0, "Start Time", moment(&status["startTime"]));
    }
    if !status["completionTime"].is_null() {
        page.field(0, "Completed At", moment(&status["completionTime"]));
    }
    if let (Some(from), Some(to)) = (time(&status["startTime"]), time(&status["completionTime"])) {
        page.field(
            0,
            "Duration",
            watchkeeper_meta::human_duration(to.seconds - from.seconds),
        );
    }
    if !spec["activeDeadlineSeconds"].is_null() {
        page.field(
            0,
            "Active Deadline Seconds",
            format!("{}s", spec["activeDeadlineSeconds"]),
        );
    }
    let count = |field: &str| text_or(&status[field], "0");
    page.field(
        0,
        "Pods Statuses",
        format!(
            "{} Active ({} Ready) / {} Succeeded / {} Failed",
            count("active"),
            count("ready"),
            count("succeeded"),
            count("failed")
        ),
    );
    page.field_if(0, "Completed Indexes", &status["completedIndexes"]);
    pod::template(&spec["template"], page);
}
