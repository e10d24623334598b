//! Measures the cost of writing a recording at 1,000 events a second: `cargo run --release -p
//! watchkeeper-bench-parts --bin recording_cost`.
//!
//! Events are status updates of pods of about 4 KB. They are created before the clock starts, so that the CPU time is
//! the writer's own: deltas, compression, two flushes a second, and the disk.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use watchkeeper_meta::{Resource, Time};
use watchkeeper_recording::{ClusterIdentity, Rotation, Stream, Writer};
use watchkeeper_runtime::follow::FollowEvent;
use watchkeeper_wire::{Object, ObjectOptions};

const PODS: usize = 2_000;
const EVENTS: usize = 20_000;
const EVENTS_PER_SECOND: usize = 1_000;
/// Two flushes a second, as the recorder does.
const EVENTS_PER_FLUSH: usize = EVENTS_PER_SECOND / 2;

fn pod(number: usize, version: usize) -> Object {
    let time = Time::from_seconds(1_800_000_000 + version as i64 / 10);
    let environment: Vec<String> = (0..40)
        .map(|index| format!(r#"{{"name":"SETTING_{index}","value":"value-{}"}}"#, index * 7919))
        .collect();
    let json = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-6d4b75cb6d-{number:06}","namespace":"team-{:02}","uid":"0e1a9f6c-0c3c-4b5e-9a5b-{number:012}","resourceVersion":"{version}","labels":{{"app":"web","pod-template-hash":"6d4b75cb6d"}},"managedFields":[{{"manager":"kubelet","operation":"Update","subresource":"status","time":"{time}","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"Ready\"}}":{{"f:status":{{}},"f:lastProbeTime":{{}}}}}},"f:containerStatuses":{{}},"f:phase":{{}}}}}}}}]}},"spec":{{"nodeName":"node-{}","containers":[{{"name":"web","image":"registry.example.com/web:1.2.3","env":[{}]}}]}},"status":{{"phase":"Running","podIP":"10.1.{}.{}","conditions":[{{"type":"Ready","status":"{}","lastTransitionTime":"{time}"}},{{"type":"Initialized","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}}],"containerStatuses":[{{"name":"web","restartCount":{},"ready":{},"started":true}}]}}}}"#,
        number % 50,
        number % 100,
        environment.join(","),
        number / 250,
        number % 250,
        if version.is_multiple_of(2) {
            "True"
        } else {
            "False"
        },
        version / PODS,
        version.is_multiple_of(2),
    );
    let keep = ObjectOptions {
        keep_managed_fields: true,
    };
    Object::from_json(json.as_bytes(), &keep).expect("valid JSON")
}

/// User and system time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux counts in hundredths of a second.
    ticks as f64 / 100.0
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("cost.rec");
    let cluster = ClusterIdentity::default();
    let now = Time::from_seconds(1_800_000_000);
    let mut writer = Writer::open(&path, &cluster, &[], Rotation::default(), now)?;
    let pods = Arc::new(Stream::new(
        Resource::namespaced("", "v1", "Pod", "pods"),
        "",
        "",
        "",
    ));
    writer.begin(now, &pods)?;
    for number in 0..PODS {
        let listed = FollowEvent::Added(pod(number, number + 1));
        writer.event(now, &pods.name, &listed)?;
    }
    writer.event(now, &pods.name, &FollowEvent::Synced((PODS as u64).into()))?;
    writer.sync()?;
    let listed_bytes = std::fs::metadata(&path)?.len();
    println!(
        "list: {PODS} pods of {} bytes, {} bytes each on disk",
        pod(1, 1).bytes().len(),
        listed_bytes / PODS as u64
    );
    let events: Vec<_> = (0..EVENTS)
        .map(|turn| FollowEvent::Modified(pod(turn.wrapping_mul(7_919) % PODS, PODS + turn + 1)))
        .collect();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    for (index, event) in events.iter().enumerate() {
        writer.event(now, &pods.name, event)?;
        if index % EVENTS_PER_FLUSH == 0 {
            writer.sync()?;
        }
    }
    writer.sync()?;
    let (wall, cpu) = (start.elapsed(), cpu_seconds() - cpu);
    let bytes = std::fs::metadata(&path)?.len() - listed_bytes;
    let seconds_of_events = EVENTS as f64 / EVENTS_PER_SECOND as f64;
    println!(
        "{EVENTS} events in {wall:.2?}: {} bytes each on disk, {:.1} % of a core at {EVENTS_PER_SECOND} a second",
        bytes / EVENTS as u64,
        100.0 * cpu / seconds_of_events,
    );
    Ok(())
}
