//! The ways a manager ends.

use std::future::pending;
use std::io;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use watchkeeper_manager::webhook::{Certificates, Webhooks};
use watchkeeper_manager::{Manager, ManagerError};
use watchkeeper_meta::{Resource, Status};
use watchkeeper_runtime::recorder::{EventType, Note};
use watchkeeper_server::{Action as Fault, Cut, RequestMatch, Rule};
use watchkeeper_testing::TestCluster;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_error_of_a_runnable_ends_the_manager_and_names_it() {
    let cluster = TestCluster::start().await.unwrap();
    let (stopped, asked) = oneshot::channel();
    let manager = Manager::new(cluster.client().clone())
        .always("patient", |stop| async move {
            stop.requested().await;
            stopped.send(()).map_err(|()| io::Error::other("nobody listens"))
        })
        .while_leading("broken", |_| async {
            Err::<(), _>(io::Error::other("out of luck"))
        });
    let error = Process::start(manager).await.ended().await.unwrap_err();
    assert_eq!(chain(&error), "broken failed: out of luck");
    soon(asked).await.expect("the others were asked to stop");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_manager_and_names_it() {
    let cluster = TestCluster::start().await.unwrap();
    let manager = Manager::new(cluster.client().clone()).always("wild", |_| async {
        if true {
            panic!("at {}", "the disco");
        }
        Ok::<_, io::Error>(())
    });
    let error = Process::start(manager).await.ended().await.unwrap_err();
    assert_eq!(error.to_string(), "wild panicked: at the disco");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_well_ends_nothing_else() {
    let cluster = TestCluster::start().await.unwrap();
    let (done, ended) = oneshot::channel::<()>();
    let manager = Manager::new(cluster.client().clone()).always("once", |_| async {
        drop(done);
        Ok::<_, io::Error>(())
    });
    let process = Process::start(manager).await;
    let _ = soon(ended).await;
    process.stop().await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_has_a_deadline_and_says_what_did_not_end() {
    let cluster = TestCluster::start().await.unwrap();
    let deadline = Duration::from_secs(5);
    let manager = Manager::new(cluster.client().clone())
        .shutdown_deadline(deadline)
        .always("stubborn", |_| pending::<Result<(), io::Error>>());
    let process = Process::start(manager).await;
    let begun = Instant::now();
    let error = process.stop().await.unwrap_err();
    assert_eq!(error.to_string(), "stubborn did not end within 5s");
    assert!(begun.elapsed() >= deadline);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_it_at_once() {
    let cluster = TestCluster::start().await.unwrap();
    let (asked, begun) = oneshot::channel();
    let manager = Manager::new(cluster.client().clone()).always("stubborn", |stop| async move {
        stop.requested().await;
        let _ = asked.send(());
        pending::<Result<(), io::Error>>().await
    });
    let process = Process::start(manager).await;
    process.signal();
    soon(begun).await.unwrap();
    let at = Instant::now();
    let error = process.stop().await.unwrap_err();
    assert!(
        matches!(&error, ManagerError::Interrupted { unfinished } if unfinished == "stubborn"),
        "{error}"
    );
    assert_eq!(at.elapsed(), Duration::ZERO);
    cluster.stop().await;
}

/// Whichever request of a start is lost, left without an answer or refused for a moment: the process begins its work.
#[tokio::test(start_paused = true)]
async fn no_failed_request_ends_a_start() {
    let failures = [
        Fault::Cut(Cut::BeforeHandling),
        Fault::Cut(Cut::BeforeAnswer),
        Fault::fail(Status::service_unavailable("not now")),
    ];
    let mut fired = 0;
    for failure in failures {
        for nth in 1..=8 {
            let cluster = TestCluster::start().await.unwrap();
            let client = cluster.client();
            create_map(client, "a").await;
            let rule = Rule {
                nth,
                ..Rule::new(RequestMatch::default(), failure.clone())
            };
            cluster.faults().inject(rule).unwrap();
            let (told, mut of) = mpsc::unbounded_channel();
            let ((listen, _), certificates) = (socket(), Certificates::self_made("hooks", ["127.0.0.1"]));
            let manager = Manager::new(client.clone())
                .leader("operator")
                .webhooks(Webhooks::new(listen, certificates))
                .controller(controller(client).reconcile(Telling(told)));
            let process = Process::start(manager).await;
            soon(of.recv()).await.expect("a reconcile");
            fired += cluster.faults().fired().len();
            cluster.faults().clear();
            let stopped = process.stop().await;
            stopped.unwrap_or_else(|error| panic!("{failure:?}, request {nth}: {}", chain(&error)));
            cluster.stop().await;
        }
    }
    assert!(fired >= 3 * 5, "only {fired} requests of a start were met");
}

#[tokio::test(start_paused = true)]
async fn what_was_recorded_is_written_before_the_end() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    create_map(client, "a").await;
    let map = maps(client).get("a").await.unwrap();
    let mut manager = Manager::new(client.clone());
    let recorder = manager.recorder("operator");
    // Outlives the manager.
    let other = recorder.clone();
    let manager = manager.always("last words", |stop| async move {
        stop.requested().await;
        let note = Note {
            event_type: EventType::Normal,
            reason: "Left".into(),
            message: "it stops".into(),
        };
        recorder.record(&map, note);
        Ok::<_, io::Error>(())
    });
    Process::start(manager).await.stop().await.unwrap();
    let events = Resource::namespaced("", "v1", "Event", "events");
    let events = client.dynamic(events).namespace("default");
    let events = events.list().await.unwrap();
    let reasons: Vec<String> = events
        .items
        .iter()
        .map(|event| text_at(&event.to_value().unwrap(), "/reason"))
        .collect();
    assert_eq!(reasons, ["Left"]);
    assert_eq!(other.dropped(), 0);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_informer_ends_is_an_error() {
    let cluster = TestCluster::start().await.unwrap();
    let client = cluster.client();
    let no_such = Resource::namespaced("example.com", "v1", "Nothing", "nothings");
    let factory = watchkeeper_runtime::factory::Factory::new(client.clone(), Default::default());
    let informer = factory.informer(watchkeeper_runtime::factory::Selection::all(no_such));
    let (told, _of) = mpsc::unbounded_channel();
    let controller = watchkeeper_runtime::controller::DynamicController::new(
        "nothings",
        informer.clone(),
        Default::default(),
    );
    let process =
        Process::start(Manager::new(client.clone()).controller(controller.reconcile(Telling(told)))).await;
    informer.stop().await;
    let error = process.ended().await.unwrap_err();
    let error = chain(&error);
    assert!(
        error.starts_with("nothings failed: the informer of its kind has ended: stopped"),
        "{error}"
    );
    cluster.stop().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let cluster = TestCluster::start().await.unwrap();
    let (_socket, address) = socket();
    let manager = Manager::new(cluster.client().clone()).metrics(address);
    let error = Process::start(manager).await.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen for metrics on {address}")
    );
    cluster.stop().await;
}
