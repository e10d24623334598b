//! Two processes, one of which leads.

use std::future::pending;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use watchkeeper_client::Client;
use watchkeeper_manager::{Manager, ManagerError};
use watchkeeper_meta::{PatchKind, Resource};
use watchkeeper_runtime::leader::{LEASE_DURATION, LeaderOptions};
use watchkeeper_testing::TestCluster;

use crate::support::*;

fn candidate(client: &Client, identity: &str, told: &mpsc::UnboundedSender<String>) -> Manager {
    Manager::new(client.clone())
        .leader_with(LeaderOptions::new("boss", identity))
        .controller(controller(client).reconcile(Telling(told.clone())))
}

async fn holder(client: &Client) -> Option<String> {
    let leases = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let leases = client.dynamic(leases).namespace("default");
    let lease = leases.get("boss").await.ok()?;
    Some(text_at(&lease.to_value().ok()?, "/spec/holderIdentity"))
}

async fn held_by(client: &Client, identity: &str) {
    eventually(async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (holder(client).await? == identity).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_second_works_when_the_first_has_stopped() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let (told_one, mut of_one) = mpsc::unbounded_channel();
    let (told_two, mut of_two) = mpsc::unbounded_channel();
    let one = Process::start(candidate(client, "one", &told_one)).await;
    held_by(client, "one").await;
    let two = Process::start(candidate(client, "two", &told_two)).await;
    create_map(client, "a").await;
    assert_eq!(soon(of_one.recv()).await.as_deref(), Some("a"));
    assert!(of_two.try_recv().is_err(), "a standby does nothing");

    let begun = Instant::now();
    one.stop().await.unwrap();
    let mut seen = soon(of_two.recv()).await;
    while seen.as_deref() != Some("a") {
        seen = soon(of_two.recv()).await;
    }
    assert!(begun.elapsed() < LEASE_DURATION, "the lease was given back");
    two.stop().await.unwrap();
    assert_eq!(holder(client).await.as_deref(), Some(""));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_stops_on_request() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let (told, _of) = mpsc::unbounded_channel();
    let one = Process::start(candidate(client, "one", &told)).await;
    held_by(client, "one").await;
    let two = Process::start(candidate(client, "two", &told)).await;
    two.stop().await.unwrap();
    assert_eq!(holder(client).await.as_deref(), Some("one"));
    one.stop().await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_drops_the_work_and_is_the_error() {
    struct Dropped(mpsc::UnboundedSender<String>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped".to_owned());
        }
    }
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let (told, mut of) = mpsc::unbounded_channel();
    let guard = Dropped(told);
    let manager = Manager::new(client.clone())
        .leader_with(LeaderOptions::new("boss", "one"))
        .while_leading("stubborn", |_| async move {
            let _guard = guard;
            pending::<Result<(), std::io::Error>>().await
        });
    let process = Process::start(manager).await;
    held_by(client, "one").await;
    let leases = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
    let leases = client.dynamic(leases).namespace("default");
    let taken = serde_json::json!({"spec": {"holderIdentity": "two"}});
    leases.patch("boss", PatchKind::Merge, &taken).await.unwrap();
    let error = process.ended().await.unwrap_err();
    assert!(
        matches!(&error, ManagerError::LeaseLost { lease } if lease == "boss"),
        "{error}"
    );
    assert_eq!(of.try_recv().as_deref(), Ok("dropped"));
    cluster.stop().await;
}
