//! Cron jobs, with simulated time.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_meta::Resource;

use crate::simulator::events::until_told;
use crate::simulator::support::{Cluster, holds, resource};

fn cron_jobs() -> Resource {
    resource("batch", "cronjobs")
}

fn jobs() -> Resource {
    resource("batch", "jobs")
}

/// A cron job that runs every minute, whose pods run this long.
fn every_minute(policy: &str, seconds: &str, code: &str) -> Value {
    let annotations = json!({
        "simulator.watchkeeper/exit-code": code,
        "simulator.watchkeeper/run-seconds": seconds,
    });
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "job:1"}]});
    let template = json!({"metadata": {"annotations": annotations}, "spec": pod});
    json!({
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *",
            "concurrencyPolicy": policy,
            "jobTemplate": {"spec": {"backoffLimit": 0, "template": template}},
        },
    })
}

fn active(cron_job: &Value) -> usize {
    cron_job["status"]["active"].as_array().map_or(0, Vec::len)
}

#[tokio::test(start_paused = true)]
async fn jobs_start_every_minute_and_history_is_limited() {
    let cluster = Cluster::start().await;
    cluster
        .create(&cron_jobs(), every_minute("Allow", "1", "0"))
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let kept = |jobs: &[Value]| jobs.len() == 3 && jobs.iter().all(|job| holds(job, "Complete"));
    cluster.until(&jobs(), "three are kept", kept).await;
    let told = |tick: &Value| active(tick) == 0 && tick["status"]["lastSuccessfulTime"].is_string();
    cluster.until_one(&cron_jobs(), "tick", "it says so", told).await;
    let tick = cluster.get(&cron_jobs(), "tick").await;
    let last: jiff::Timestamp = tick["status"]["lastScheduleTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let name = format!("tick-{}", last.as_second() / 60);
    let job = cluster.get(&jobs(), &name).await;
    let scheduled = &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(*scheduled, tick["status"]["lastScheduleTime"]);

    cluster
        .patch(&cron_jobs(), "tick", json!({"spec": {"suspend": true}}))
        .await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let later = cluster.get(&cron_jobs(), "tick").await;
    let missed = later["status"]["lastScheduleTime"]
        .as_str()
        .unwrap()
        .parse::<jiff::Timestamp>()
        .unwrap();
    assert!(
        missed.duration_since(last).as_secs() <= 60,
        "suspended, it starts nothing"
    );
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn concurrency_policies_are_respected() {
    let cluster = Cluster::start().await;
    for (policy, at_most, least) in [("Forbid", 1, 1), ("Replace", 1, 1), ("Allow", 20, 5)] {
        cluster
            .create(&cron_jobs(), every_minute(policy, "100000", "0"))
            .await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let running = |tick: &Value| (least..=at_most).contains(&active(tick));
        cluster.until_one(&cron_jobs(), "tick", policy, running).await;
        let listed = cluster.api(&jobs()).list().await.unwrap();
        assert!(
            (least..=at_most).contains(&listed.items.len()),
            "{policy}: {}",
            listed.items.len()
        );
        cluster.delete(&cron_jobs(), "tick").await;
        cluster
            .until(&jobs(), "its jobs are gone", <[Value]>::is_empty)
            .await;
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cron_jobs_record_events() {
    let cluster = Cluster::start().await;
    let mut tick = every_minute("Allow", "1", "0");
    tick["spec"]["timeZone"] = json!("Asia/Tokyo");
    cluster.create(&cron_jobs(), tick).await;
    let who = "cronjob-controller";
    until_told(
        &cluster,
        who,
        "CronJob/tick",
        "SuccessfulCreate",
        "Created job tick-",
    )
    .await;
    until_told(
        &cluster,
        who,
        "CronJob/tick",
        "SawCompletedJob",
        "Saw completed job: tick-",
    )
    .await;
    until_told(
        &cluster,
        who,
        "CronJob/tick",
        "SuccessfulDelete",
        "Deleted job tick-",
    )
    .await;
    let listed = cluster.api(&jobs()).list().await.unwrap();
    let scheduled = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    let job = listed.items[0].to_value().unwrap();
    let time = job["metadata"]["annotations"][scheduled].as_str().unwrap();
    assert!(time.ends_with("+09:00"), "in the zone of the schedule: {time}");
    cluster.stop().await;
}
