//! Two candidates, one lease, a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use watchkeeper_meta::PatchKind;
use watchkeeper_runtime::leader::{LeaderElector, LeaderOptions, LeaderOptionsError, Led};

use crate::support::{Cluster, SOON, leases};

/// Quick enough for a test, slow enough for a busy machine.
fn quick(identity: &str) -> LeaderOptions {
    LeaderOptions {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(50),
        ..LeaderOptions::new("boss", identity)
    }
}

fn elector(cluster: &Cluster, identity: &str) -> LeaderElector {
    let leases = cluster.client.dynamic(leases()).namespace("default");
    LeaderElector::new(leases, quick(identity)).expect("valid times")
}

#[tokio::test(start_paused = true)]
async fn one_leads_at_a_time_and_gives_way_when_done() {
    let cluster = Cluster::start().await;
    let working = Arc::new(AtomicUsize::new(0));
    let candidates = ["one", "two", "three"].map(|identity| {
        let (mut elector, working) = (elector(&cluster, identity), working.clone());
        tokio::spawn(async move {
            elector
                .lead(async || {
                    assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    tokio::time::sleep(Duration::from_millis(120)).await;
                    working.fetch_sub(1, Ordering::SeqCst);
                })
                .await
        })
    });
    for candidate in candidates {
        let led = tokio::time::timeout(SOON, candidate).await.expect("had its turn");
        assert_eq!(led.expect("no panic"), Led::Finished(()));
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_when_the_lease_cannot_be_renewed() {
    let cluster = Cluster::start().await;
    let mut elector = elector(&cluster, "one");
    let server = cluster.server;
    let led = elector.lead(async || {
        server.shutdown().await;
        std::future::pending::<()>().await;
    });
    assert_eq!(tokio::time::timeout(SOON, led).await.expect("noticed"), Led::Lost);
}

#[tokio::test(start_paused = true)]
async fn times_that_cannot_keep_leaders_apart_are_refused() {
    let cluster = Cluster::start().await;
    let leases = cluster.client.dynamic(leases()).namespace("default");
    let short = LeaderOptions {
        lease_duration: Duration::from_secs(1),
        ..quick("one")
    };
    assert_eq!(
        LeaderElector::new(leases, short).unwrap_err(),
        LeaderOptionsError::LeaseTooShort
    );
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_as_soon_as_another_is_seen_to_hold_the_lease() {
    let cluster = Cluster::start().await;
    let leases = cluster.client.dynamic(leases()).namespace("default");
    let mut elector = elector(&cluster, "one");
    let begun = tokio::time::Instant::now();
    let led = elector.lead(async || {
        let taken = serde_json::json!({"spec": {"holderIdentity": "two"}});
        let options = Default::default();
        let patched = leases.patch("boss", PatchKind::Merge, &taken, &options).await;
        patched.expect("taken by force");
        std::future::pending::<()>().await;
    });
    assert_eq!(tokio::time::timeout(SOON, led).await.expect("noticed"), Led::Lost);
    assert!(
        begun.elapsed() < quick("one").renew_deadline,
        "at once, not at the deadline"
    );
    assert_eq!(elector.leader(), Some("two"));
}
