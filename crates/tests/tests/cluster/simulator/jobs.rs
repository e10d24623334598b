//! Jobs: completions, parallelism, and outcomes.

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::events::until_told;
use crate::simulator::support::{Cluster, holds, pods, resource};

fn jobs() -> Resource {
    resource("batch", "jobs")
}

/// A job whose pods exit with this code.
fn job(code: &str, spec: Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "work"},
        "spec": {"template": {
            "metadata": {"annotations": {"simulator.watchkeeper/exit-code": code}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "job:1"}]},
        }},
    });
    for (name, value) in spec.as_object().into_iter().flatten() {
        job["spec"][name] = value.clone();
    }
    job
}

fn number(job: &Value, name: &str) -> u64 {
    job["status"][name].as_u64().unwrap_or_default()
}

fn conditions(job: &Value) -> Vec<(&str, &str)> {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .map(|condition| {
            let text = |name: &str| condition[name].as_str().unwrap_or_default();
            (text("type"), text("reason"))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_and_its_pods_are_counted_once() {
    let cluster = Cluster::start().await;
    cluster
        .create(&jobs(), job("0", json!({"completions": 5, "parallelism": 2})))
        .await;
    cluster
        .until_one(&jobs(), "work", "the job is complete", |job| {
            holds(job, "Complete")
        })
        .await;
    let done = cluster.get(&jobs(), "work").await;
    assert_eq!(
        (
            number(&done, "succeeded"),
            number(&done, "failed"),
            number(&done, "active")
        ),
        (5, 0, 0)
    );
    assert_eq!(
        conditions(&done),
        [
            ("SuccessCriteriaMet", "CompletionsReached"),
            ("Complete", "CompletionsReached")
        ]
    );
    assert!(done["status"]["startTime"].is_string() && done["status"]["completionTime"].is_string());
    let free = |pod: &Value| pod["metadata"]["finalizers"].is_null();
    cluster
        .until(&pods(), "pods are free", |pods| {
            pods.len() == 5 && pods.iter().all(free)
        })
        .await;
    cluster.delete(&jobs(), "work").await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_index_has_its_pod() {
    let cluster = Cluster::start().await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    cluster.create(&jobs(), job("0", spec)).await;
    let done = |job: &Value| holds(job, "Complete") && job["status"]["completedIndexes"] == "0-2";
    cluster
        .until_one(&jobs(), "work", "all indexes are done", done)
        .await;
    let index = "batch.kubernetes.io/job-completion-index";
    let of = |pods: &[Value], wanted: &str| {
        let of = |pod: &&Value| pod["metadata"]["annotations"][index] == wanted;
        let pod = pods.iter().find(of).unwrap();
        let variable = &pod["spec"]["containers"][0]["env"][0]["name"];
        pod["metadata"]["labels"][index] == wanted
            && pod["spec"]["hostname"] == format!("work-{wanted}")
            && variable == "JOB_COMPLETION_INDEX"
    };
    let all = |pods: &[Value]| ["0", "1", "2"].iter().all(|index| of(pods, index));
    cluster.until(&pods(), "pods know their index", all).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_after_too_many_failures() {
    let cluster = Cluster::start().await;
    cluster
        .create(&jobs(), job("1", json!({"backoffLimit": 2})))
        .await;
    cluster
        .until_one(&jobs(), "work", "the job has failed", |job| holds(job, "Failed"))
        .await;
    let failed = cluster.get(&jobs(), "work").await;
    assert_eq!((number(&failed, "succeeded"), number(&failed, "failed")), (0, 3));
    assert_eq!(
        conditions(&failed),
        [
            ("FailureTarget", "BackoffLimitExceeded"),
            ("Failed", "BackoffLimitExceeded")
        ]
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn container_restarts_count_as_failures() {
    let cluster = Cluster::start().await;
    let mut job = job("1", json!({"backoffLimit": 3}));
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    cluster.create(&jobs(), job).await;
    cluster
        .until_one(&jobs(), "work", "the job has failed", |job| holds(job, "Failed"))
        .await;
    cluster
        .until(&pods(), "the pod is stopped", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_is_stopped_and_removed_after_its_ttl() {
    let cluster = Cluster::start().await;
    let mut job = job(
        "0",
        json!({"activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 60}),
    );
    job["spec"]["template"]["metadata"]["annotations"]["simulator.watchkeeper/run-seconds"] = json!("1000");
    cluster.create(&jobs(), job).await;
    let late = |job: &Value| holds(job, "Failed") && conditions(job)[1].1 == "DeadlineExceeded";
    cluster.until_one(&jobs(), "work", "the job was late", late).await;
    cluster
        .until(&jobs(), "the job is gone", <[Value]>::is_empty)
        .await;
    cluster
        .until(&pods(), "its pods are gone", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_can_be_resumed() {
    let cluster = Cluster::start().await;
    let mut job = job("0", json!({"completions": 2, "parallelism": 2}));
    job["spec"]["template"]["metadata"]["annotations"]["simulator.watchkeeper/run-seconds"] = json!("100");
    cluster.create(&jobs(), job).await;
    cluster
        .until_one(&jobs(), "work", "two run", |job| number(job, "ready") == 2)
        .await;
    cluster
        .patch(&jobs(), "work", json!({"spec": {"suspend": true}}))
        .await;
    let waits = |job: &Value| holds(job, "Suspended") && number(job, "active") == 0;
    cluster.until_one(&jobs(), "work", "none run", waits).await;
    cluster.until(&pods(), "pods are gone", <[Value]>::is_empty).await;
    cluster
        .patch(&jobs(), "work", json!({"spec": {"suspend": false}}))
        .await;
    let done =
        |job: &Value| holds(job, "Complete") && number(job, "succeeded") == 2 && number(job, "failed") == 0;
    cluster
        .until_one(&jobs(), "work", "the job is complete", done)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_deleted() {
    let cluster = Cluster::start().await;
    let mut job = job("0", json!({}));
    job["spec"]["template"]["metadata"]["annotations"]["simulator.watchkeeper/run-seconds"] = json!("1000");
    cluster.create(&jobs(), job).await;
    cluster
        .until_one(&jobs(), "work", "it runs", |job| number(job, "ready") == 1)
        .await;
    let background = watchkeeper_meta::DeleteOptions {
        propagation_policy: Some(watchkeeper_meta::PropagationPolicy::Background),
        ..Default::default()
    };
    cluster
        .api(&jobs())
        .delete("work")
        .with(&background)
        .await
        .unwrap();
    cluster
        .until(&pods(), "its pods are gone", <[Value]>::is_empty)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_adopts_orphans_and_releases_pods_that_no_longer_match() {
    let cluster = Cluster::start().await;
    let mut job = job("0", json!({"completions": 2, "parallelism": 2}));
    job["spec"]["template"]["metadata"]["annotations"]["simulator.watchkeeper/run-seconds"] = json!("1000");
    cluster.create(&jobs(), job).await;
    cluster
        .until_one(&jobs(), "work", "two run", |job| number(job, "ready") == 2)
        .await;
    let listed = cluster.api(&pods()).list().await.unwrap();
    let names: Vec<&str> = listed.items.iter().map(|pod| pod.name()).collect();
    let orphaned = json!({"metadata": {"ownerReferences": null}});
    cluster.patch(&pods(), names[0], orphaned).await;
    let adopted = |pod: &Value| pod["metadata"]["ownerReferences"][0]["name"] == "work";
    cluster
        .until_one(&pods(), names[0], "the orphan is adopted", adopted)
        .await;
    let uid = cluster.get(&resource("", "configmaps"), "kube-root-ca.crt").await["metadata"]["uid"].clone();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": uid});
    let pod = cluster.get(&pods(), names[0]).await;
    let owners = json!([pod["metadata"]["ownerReferences"][0], other]);
    let stranger = json!({"metadata": {"labels": null, "ownerReferences": owners}});
    cluster.patch(&pods(), names[0], stranger).await;
    let released = |pod: &Value| pod["metadata"]["ownerReferences"] == json!([other]);
    cluster
        .until_one(&pods(), names[0], "the stranger is released", released)
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fail_job_rule_ends_the_job() {
    let cluster = Cluster::start().await;
    let rules = json!([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]);
    cluster
        .create(&jobs(), job("42", json!({"podFailurePolicy": {"rules": rules}})))
        .await;
    cluster
        .until_one(&jobs(), "work", "the job has failed", |job| holds(job, "Failed"))
        .await;
    let failed = cluster.get(&jobs(), "work").await;
    assert_eq!(
        conditions(&failed),
        [
            ("FailureTarget", "PodFailurePolicy"),
            ("Failed", "PodFailurePolicy")
        ]
    );
    let words = failed["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(words.starts_with("Container c for pod default/work-"), "{words}");
    assert!(
        words.ends_with("failed with exit code 42 matching FailJob rule at index 0"),
        "{words}"
    );
    let words = "Container c for pod default/work-";
    until_told(&cluster, "job-controller", "Job/work", "PodFailurePolicy", words).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn indexes_fail_independently() {
    let cluster = Cluster::start().await;
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed",
        "backoffLimitPerIndex": 1,
    });
    cluster.create(&jobs(), job("1", spec)).await;
    cluster
        .until_one(&jobs(), "work", "the job has failed", |job| holds(job, "Failed"))
        .await;
    let failed = cluster.get(&jobs(), "work").await;
    assert_eq!(failed["status"]["failedIndexes"], "0,1");
    assert_eq!(number(&failed, "failed"), 4);
    assert_eq!(
        conditions(&failed),
        [("FailureTarget", "FailedIndexes"), ("Failed", "FailedIndexes")]
    );
    cluster.stop().await;
}
