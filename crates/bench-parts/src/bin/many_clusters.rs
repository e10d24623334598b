//! The cost of test clusters: starting and stopping one, keeping a thousand, and forking a full one.
//!
//! `cargo run --release -p watchkeeper-bench-parts --bin many_clusters`
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use watchkeeper_client::DynamicApi;
use watchkeeper_meta::Resource;
use watchkeeper_testing::TestCluster;

const CLUSTERS: usize = 1_000;
const OBJECTS: usize = 10_000;
const FORKS: u32 = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first one also reads the schema and other process-wide data.
    let (first, _) = cpu(async {
        TestCluster::start().await?.stop().await;
        Ok(())
    })
    .await?;
    println!("the first cluster: {first:?} of CPU");

    let (one_by_one, ()) = cpu(async {
        for _ in 0..CLUSTERS {
            TestCluster::start().await?.stop().await;
        }
        Ok(())
    })
    .await?;
    println!(
        "{CLUSTERS} clusters, one after the other: {:?} of CPU each",
        one_by_one / CLUSTERS as u32
    );

    let before = resident_kib();
    let mut clusters = Vec::with_capacity(CLUSTERS);
    for _ in 0..CLUSTERS {
        let cluster = TestCluster::start().await?;
        create(&maps(&cluster), 0).await?;
        clusters.push(cluster);
    }
    let each = (resident_kib() - before) / CLUSTERS;
    println!("{CLUSTERS} clusters at a time, each with a connection and an object: {each} KiB each");
    for cluster in clusters {
        cluster.stop().await;
    }

    let cluster = TestCluster::start().await?;
    for index in 0..OBJECTS {
        create(&maps(&cluster), index).await?;
    }
    let (snapshots, ()) = cpu(async {
        (0..FORKS).for_each(|_| drop(cluster.snapshot()));
        Ok(())
    })
    .await?;
    let (forks, forked) = cpu(async {
        let mut forked = Vec::new();
        for _ in 0..FORKS {
            forked.push(cluster.fork().await?);
        }
        Ok(forked)
    })
    .await?;
    let (writes, ()) = cpu(async {
        for fork in &forked {
            create(&maps(fork), OBJECTS).await?;
        }
        Ok(())
    })
    .await?;
    println!(
        "of {OBJECTS} objects: a snapshot {:?}, a fork with its server {:?}, the first write there {:?}",
        snapshots / FORKS,
        forks / FORKS,
        writes / FORKS
    );
    Ok(())
}

/// The CPU time of a future on this thread, the only one.
async fn cpu<T>(
    work: impl Future<Output = Result<T, Box<dyn std::error::Error>>>,
) -> Result<(Duration, T), Box<dyn std::error::Error>> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let begun = now();
    let done = work.await?;
    Ok((now() - begun, done))
}

/// The resident memory of this process.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or_default()
}

fn maps(cluster: &TestCluster) -> DynamicApi {
    let maps = Resource::namespaced("", "v1", "ConfigMap", "configmaps");
    cluster.client().dynamic(maps).namespace("default")
}

async fn create(maps: &DynamicApi, index: usize) -> Result<(), watchkeeper_client::Error> {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("map-{index}")},
        "data": {"text": "some text"},
    });
    maps.create(&map).await.map(drop)
}
