//! Leader election with two candidates and one lease, on the embedded server.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use watchkeeper_client::config::{Config, Credentials};
use watchkeeper_client::{Client, DynamicApi, InProcess, Secret};
use watchkeeper_meta::{GroupResource, PatchKind, Status};
use watchkeeper_runtime::leader::{LeaderElector, LeaderOptions, LeaderOptionsError, Led};
use watchkeeper_server::{RequestMatch, Verb};

use crate::runtime::support::{Cluster, SOON, leases};

/// Short enough for a test, long enough for a busy machine.
fn quick(identity: &str) -> LeaderOptions {
    LeaderOptions {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(50),
        ..LeaderOptions::new("boss", identity)
    }
}

fn elector(cluster: &Cluster, identity: &str) -> LeaderElector {
    LeaderElector::new(leases_of(&cluster.client), quick(identity)).expect("valid times")
}

fn leases_of(client: &Client) -> DynamicApi {
    client.dynamic(leases()).namespace("default")
}

async fn holder(cluster: &Cluster) -> String {
    let lease = leases_of(&cluster.client).get("boss").await;
    let lease = lease.expect("a lease").to_value().expect("JSON");
    lease["spec"]["holderIdentity"].as_str().expect("text").to_owned()
}

/// The state of the connection to the server.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Works,
    /// No bytes pass, but nothing is closed.
    Dead,
}

/// A client whose connections stall on request, and cannot be opened while stalled.
fn client_over(cluster: &Cluster, line: watch::Receiver<Line>) -> Client {
    let connector = cluster.server.connector();
    let pipes = InProcess::new(move || {
        let (connector, mut line) = (connector.clone(), line.clone());
        async move {
            if *line.borrow() == Line::Dead {
                pending::<()>().await;
            }
            let mut far = connector.connect().await?;
            let (near, mut middle) = tokio::io::duplex(1 << 16);
            tokio::spawn(async move {
                let dies = async { drop(line.wait_for(|line| *line == Line::Dead).await) };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut middle, &mut far) => return,
                    () = dies => {}
                }
                // Both ends stay open.
                pending::<()>().await;
            });
            Ok(near)
        }
    });
    let mut config = Config::new("http://localhost".parse().expect("an address"));
    config.credentials = Credentials::Token(Secret::new(cluster.server.admin_token().reveal()));
    Client::in_process_as(pipes, &config, Default::default()).expect("a client")
}

#[tokio::test(start_paused = true)]
async fn one_candidate_leads_at_a_time_and_releases_when_done() {
    let cluster = Cluster::start().await;
    let working = Arc::new(AtomicUsize::new(0));
    let candidates = ["one", "two", "three"].map(|identity| {
        let (mut elector, working) = (elector(&cluster, identity), working.clone());
        tokio::spawn(async move {
            elector
                .lead(
                    async || {
                        assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "alone");
                        tokio::time::sleep(Duration::from_millis(120)).await;
                        working.fetch_sub(1, Ordering::SeqCst);
                    },
                    pending(),
                )
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
    let work = async || {
        server.shutdown().await;
        pending::<()>().await;
    };
    let led = elector.lead(work, pending());
    assert_eq!(tokio::time::timeout(SOON, led).await.expect("noticed"), Led::Lost);
}

#[tokio::test(start_paused = true)]
async fn timings_that_allow_two_leaders_are_rejected() {
    let cluster = Cluster::start().await;
    let leases = leases_of(&cluster.client);
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
async fn work_is_dropped_as_soon_as_another_holder_is_seen() {
    let cluster = Cluster::start().await;
    let leases = leases_of(&cluster.client);
    let mut elector = elector(&cluster, "one");
    let begun = Instant::now();
    let work = async || {
        let taken = serde_json::json!({"spec": {"holderIdentity": "two"}});
        let options = Default::default();
        let patched = leases
            .patch("boss", PatchKind::Merge, &taken)
            .with(&options)
            .await;
        patched.expect("taken by force");
        pending::<()>().await;
    };
    let led = elector.lead(work, pending());
    assert_eq!(tokio::time::timeout(SOON, led).await.expect("noticed"), Led::Lost);
    assert!(
        begun.elapsed() < quick("one").renew_deadline,
        "at once, not at the deadline"
    );
    assert_eq!(elector.leader(), Some("two"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_released_despite_a_concurrent_write() {
    let cluster = Cluster::start().await;
    let leases = GroupResource::new("coordination.k8s.io", "leases");
    let conflict = Status::conflict(&leases, "boss", "it was labelled");
    let updates = RequestMatch::new(Verb::Update, "leases");
    let work = async || {
        let planned = cluster.server.faults().answer_next(updates, 2, conflict);
        planned.expect("planned");
        assert_eq!(holder(&cluster).await, "one");
    };
    let led = elector(&cluster, "one").lead(work, pending()).await;
    assert_eq!(led, Led::Finished(()));
    assert_eq!(holder(&cluster).await, "", "the next need not wait");
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_another_holder_is_not_released() {
    let cluster = Cluster::start().await;
    let leases = leases_of(&cluster.client);
    let work = async || {
        let taken = serde_json::json!({"spec": {"holderIdentity": "two"}});
        let patched = leases.patch("boss", PatchKind::Merge, &taken).await;
        patched.expect("taken by force");
    };
    let led = elector(&cluster, "one").lead(work, pending()).await;
    assert_eq!(led, Led::Finished(()));
    assert_eq!(holder(&cluster).await, "two");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_retried() {
    let cluster = Cluster::start().await;
    let (line, works) = watch::channel(Line::Dead);
    let leases = leases_of(&client_over(&cluster, works));
    let mut elector = LeaderElector::new(leases, quick("one")).expect("valid times");
    let begun = Instant::now();
    let led = elector.lead(async || begun.elapsed(), pending());
    let restored = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        line.send_replace(Line::Works);
    };
    let (led, ()) = tokio::join!(tokio::time::timeout(SOON, led), restored);
    let Led::Finished(after) = led.expect("leads") else {
        panic!("it was lost")
    };
    assert!(after < quick("one").renew_deadline, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn finished_work_does_not_wait_for_a_dead_server() {
    let cluster = Cluster::start().await;
    let (line, works) = watch::channel(Line::Works);
    let leases = leases_of(&client_over(&cluster, works));
    let mut elector = LeaderElector::new(leases, quick("one")).expect("valid times");
    let begun = Instant::now();
    let led = elector
        .lead(async || line.send_replace(Line::Dead) == Line::Works, pending())
        .await;
    assert_eq!(led, Led::Finished(true));
    assert!(
        begun.elapsed() <= quick("one").renew_deadline * 2,
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_standby_stops_on_request() {
    let cluster = Cluster::start().await;
    let mut standby = elector(&cluster, "two");
    let led = elector(&cluster, "one")
        .lead(
            async || {
                let waits = async { tokio::time::sleep(Duration::from_millis(500)).await };
                let begun = Instant::now();
                let led = standby.lead(async || unreachable!("it never leads"), waits).await;
                (led, begun.elapsed())
            },
            pending(),
        )
        .await;
    let Led::Finished((led, waited)) = led else {
        panic!("it was lost")
    };
    assert_eq!(led, Led::<()>::Left);
    assert!(waited < quick("two").lease_duration, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_granted_during_shutdown_is_released() {
    let cluster = Cluster::start().await;
    let store = cluster.server.registry().store();
    let before = store.current_revision();
    // Polled before the answer arrives: the answer is in flight once the server has created the lease.
    let granted = std::future::poll_fn(|_| match store.current_revision() > before {
        true => Poll::Ready(()),
        false => Poll::Pending,
    });
    let led = elector(&cluster, "one")
        .lead(async || pending().await, granted)
        .await;
    assert_eq!(led, Led::<()>::Left);
    assert_eq!(holder(&cluster).await, "");
}
