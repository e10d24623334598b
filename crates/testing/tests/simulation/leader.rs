//! Failover: a leader that was cut off continues to work beside its successor.

use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::Client;
use watchkeeper_meta::{PatchKind, Resource};
use watchkeeper_runtime::leader::{LeaderElector, LeaderOptions};
use watchkeeper_testing::Simulation;
use watchkeeper_testing::simulation::{Process, State};

use crate::support::{SEARCHED, SEEDS, maps, text};

const COUNTER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: counter}\n";

/// Two replicas, of which the leader counts.
fn simulation(stops: bool) -> Simulation {
    Simulation::new()
        .manifest(COUNTER)
        .replicas("boss", 2, move |process| boss(process, stops))
        .workload(|_, _| tokio::time::sleep(Duration::from_secs(60)))
        .always("only the leader works", only_the_leader_works)
}

fn only_the_leader_works(state: &State<'_>) -> Result<(), String> {
    let lease = state.get("Lease", "default", "boss");
    let leader = lease.map_or("", |lease| text(lease, "/spec/holderIdentity"));
    match state.write() {
        Some(write) if write.kind == "ConfigMap" && write.user != leader => {
            Err(format!("{} writes, and {leader} leads", write.user))
        }
        _ => Ok(()),
    }
}

async fn boss(process: Process, stops: bool) {
    let client = process.client();
    let leases = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let leases = client.dynamic(leases).namespace("default");
    let options = LeaderOptions::new("boss", process.name());
    let mut elector = LeaderElector::new(leases, options).expect("good options");
    let name = process.name().to_owned();
    let work = async || match stops {
        // Dropped when the lease is lost.
        true => count(client, name).await,
        // Continues after the lease is lost.
        false => {
            tokio::spawn(count(client, name));
            std::future::pending().await
        }
    };
    elector.lead(work, std::future::pending()).await;
    // A replica that loses the lease starts again.
    if !stops {
        std::future::pending().await
    }
}

/// Counts to ten, slowly.
async fn count(client: Client, name: String) {
    for number in 0..10 {
        let patch: Value = json!({"data": {(name.as_str()): number.to_string()}});
        let _ = maps(&client).patch("counter", PatchKind::Merge, &patch).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    std::future::pending().await
}

#[test]
fn a_leader_that_works_on_without_its_lease_is_found() {
    let found = simulation(false).search(7..SEARCHED).expect("a seed that fails");
    let told = found.to_string();
    assert!(told.contains("always \"only the leader works\""), "{told}");
    assert!(told.contains("spec.holderIdentity \"boss-"), "{told}");
}

#[test]
fn a_leader_that_stops_with_its_lease_passes() {
    simulation(true).check(SEEDS);
}
