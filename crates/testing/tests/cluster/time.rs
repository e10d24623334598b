//! One clock for server, store, runtime and simulator.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use watchkeeper_client::config::Credentials;
use watchkeeper_client::{Client, Config, InProcess, ObjectOrStatus, Secret};
use watchkeeper_meta::{ObjectKey, Time};
use watchkeeper_runtime::controller::{Action, ControllerOptions, DynamicController, Reconciler, Request};
use watchkeeper_runtime::factory::{Factory, FactoryOptions, Selection};
use watchkeeper_runtime::leader::{LeaderElector, LeaderOptions};
use watchkeeper_runtime::recorder::{EventType, Note, Recorder};
use watchkeeper_server::{Action as Fault, Handle, RequestMatch, Rule, Verb};
use watchkeeper_simulator::SimulatorOptions;
use watchkeeper_testing::{TestCluster, TestOptions, unlimited};

use crate::support::{START, api, create_map, get, maps, names, paused, resource};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn timestamps_start_at_the_given_time_and_follow_the_clock() {
    let cluster = paused().await;
    create_map(&cluster, "a").await;
    cluster.advance(10 * MINUTE).await;
    create_map(&cluster, "b").await;
    let created = async |name| get(&maps(&cluster), name).await["metadata"]["creationTimestamp"].clone();
    assert_eq!(created("a").await, START);
    assert_eq!(created("b").await, "2030-01-01T00:10:00Z");
    cluster.stop().await;
}

#[tokio::test]
async fn running_time_can_be_advanced_as_well() {
    let cluster = TestCluster::start().await.unwrap();
    let before = cluster.now().seconds;
    cluster.advance(24 * HOUR).await;
    assert!((86_400..86_500).contains(&(cluster.now().seconds - before)));
    // Time runs, so this ends.
    tokio::time::sleep(Duration::from_millis(1)).await;
    cluster.stop().await;
}

#[tokio::test]
async fn a_token_expires() {
    let cluster = paused().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = api(&cluster, "", "serviceaccounts");
    accounts.create(&account).await.unwrap();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 600},
    });
    let tokens = accounts.subresource("token");
    let ObjectOrStatus::Object(posted) = tokens.post("robot", &request).await.unwrap() else {
        panic!("no token");
    };
    let posted = posted.to_value().unwrap();
    let token = posted["status"]["token"].as_str().unwrap().to_owned();
    assert_eq!(posted["status"]["expirationTimestamp"], "2030-01-01T00:10:00Z");
    let robot = client_with(cluster.server(), &token);
    let ask = async || {
        let answer = robot.dynamic(resource("", "configmaps")).namespace("default");
        answer.list().await.unwrap_err()
    };
    assert!(ask().await.is_forbidden());
    cluster.advance(11 * MINUTE).await;
    assert!(ask().await.is_unauthorized());
    cluster.stop().await;
}

/// The system clock is set, while timers go on as before.
#[tokio::test]
async fn a_step_of_the_wall_clock_counts_for_tokens_and_timestamps_at_once() {
    let cluster = paused().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let accounts = api(&cluster, "", "serviceaccounts");
    accounts.create(&account).await.unwrap();
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 600},
    });
    let tokens = accounts.subresource("token");
    let ObjectOrStatus::Object(posted) = tokens.post("robot", &request).await.unwrap() else {
        panic!("no token");
    };
    let posted = posted.to_value().unwrap();
    let robot = client_with(cluster.server(), posted["status"]["token"].as_str().unwrap());
    let is_known = async || {
        let answer = robot.dynamic(resource("", "configmaps")).namespace("default");
        let error = answer.list().await.unwrap_err();
        assert!(error.is_forbidden() || error.is_unauthorized(), "{error}");
        error.is_forbidden()
    };
    let created = async |name| {
        create_map(&cluster, name).await;
        get(&maps(&cluster), name).await["metadata"]["creationTimestamp"].clone()
    };
    let time = |text: &str| text.parse::<Time>().unwrap().into();
    assert!(is_known().await);

    let forward = watchkeeper_clock::set(time("2030-01-01T01:00:00Z"));
    assert!(!is_known().await, "it has expired");
    assert_eq!(created("forward").await, "2030-01-01T01:00:00Z");
    drop(forward);
    assert!(is_known().await, "it is valid again");

    let back = watchkeeper_clock::set(time("2029-12-31T23:00:00Z"));
    assert!(!is_known().await, "it is not valid yet");
    assert_eq!(created("back").await, "2029-12-31T23:00:00Z");
    drop(back);
    assert_eq!(created("again").await, START);
    cluster.stop().await;
}

/// A client with this token.
pub(crate) fn client_with(server: &Handle, token: &str) -> Client {
    let connector = server.connector();
    let pipes = InProcess::new(move || {
        let connector = connector.clone();
        async move { connector.connect().await }
    });
    let mut config = Config::new(http::Uri::from_static("http://localhost"));
    config.credentials = Credentials::Token(Secret::new(token));
    Client::in_process_as(pipes, &config, unlimited()).unwrap()
}

#[tokio::test]
async fn recorded_events_have_the_clusters_time_and_expire_after_an_hour() {
    let cluster = paused().await;
    create_map(&cluster, "a").await;
    cluster.advance(5 * MINUTE).await;
    let about = maps(&cluster).get("a").await.unwrap();
    let (recorder, writer) = Recorder::start(cluster.client(), "operator", None);
    let note = Note {
        event_type: EventType::Normal,
        reason: "Seen".to_owned(),
        message: "it was seen".to_owned(),
    };
    recorder.record(&about, note);
    drop(recorder);
    writer.finish().await;
    let events = api(&cluster, "", "events");
    let all = events.list().await.unwrap();
    let event = all.items[0].to_value().unwrap();
    assert_eq!(event["firstTimestamp"], "2030-01-01T00:05:00Z");
    cluster.advance(HOUR).await;
    assert_eq!(names(&events).await, [""; 0]);
    cluster.stop().await;
}

#[tokio::test]
async fn leases_are_renewed_and_taken_over_in_virtual_time() {
    let cluster = paused().await;
    let leases = || api(&cluster, "coordination.k8s.io", "leases");
    let elect = |name: &str| LeaderElector::new(leases(), LeaderOptions::new("boss", name)).unwrap();
    let mut first = elect("first");
    let leading = tokio::spawn(async move {
        let work = async || std::future::pending::<()>().await;
        first.lead(work, std::future::pending()).await
    });
    cluster.advance(MINUTE).await;
    let lease = get(&leases(), "boss").await;
    assert_eq!(lease["spec"]["holderIdentity"], "first");
    let acquired = lease["spec"]["acquireTime"].as_str().unwrap();
    assert!(acquired.starts_with("2030-01-01T00:00:0"), "{acquired}");
    let renewed = lease["spec"]["renewTime"].as_str().unwrap();
    assert!(renewed > "2030-01-01T00:00:55", "{renewed}");
    // It crashes without releasing; the lease expires.
    leading.abort();
    let mut second = elect("second");
    let leading = tokio::spawn(async move {
        let work = async || std::future::pending::<()>().await;
        second.lead(work, std::future::pending()).await
    });
    cluster.advance(MINUTE).await;
    assert_eq!(get(&leases(), "boss").await["spec"]["holderIdentity"], "second");
    leading.abort();
    cluster.stop().await;
}

#[tokio::test]
async fn cron_jobs_run_in_virtual_time() {
    let options = TestOptions {
        simulator: Some(SimulatorOptions::default()),
        start_time: Some("2030-06-01T11:30:00Z".parse().unwrap()),
        paused: true,
        ..TestOptions::default()
    };
    let cluster = TestCluster::start_with(options).await.unwrap();
    let manifest = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: noon}
spec:
  schedule: 0 12 * * *
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
";
    cluster.load(manifest).await.unwrap();
    cluster.advance(29 * MINUTE).await;
    let jobs = api(&cluster, "batch", "jobs");
    assert_eq!(names(&jobs).await, [""; 0]);
    cluster.advance(2 * MINUTE).await;
    assert_eq!(names(&jobs).await.len(), 1);
    let noon = get(&api(&cluster, "batch", "cronjobs"), "noon").await;
    assert_eq!(noon["status"]["lastScheduleTime"], "2030-06-01T12:00:00Z");
    cluster.stop().await;
}

/// Labels every config map, and counts reconciles.
struct Label {
    maps: watchkeeper_client::DynamicApi,
    reconciles: Arc<AtomicUsize>,
}

impl Reconciler for Label {
    type Error = Infallible;

    async fn reconcile(&self, request: Request) -> Result<Action, Infallible> {
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        let key: &ObjectKey = &request.key;
        let patch = json!({"metadata": {"labels": {"seen": "yes"}}});
        let merge = watchkeeper_meta::PatchKind::Merge;
        let maps = self.maps.clone().namespace(key.namespace());
        let _ = maps.patch(key.name(), merge, &patch).await;
        Ok(Action::Done)
    }
}

#[tokio::test]
async fn idle_means_that_every_informer_and_queue_is_drained() {
    let cluster = paused().await;
    let factory = Factory::new(cluster.client().clone(), FactoryOptions::default());
    let informer = factory.informer(Selection::all(resource("", "configmaps")));
    let reconciles = Arc::new(AtomicUsize::new(0));
    let label = Label {
        maps: cluster.client().dynamic(resource("", "configmaps")),
        reconciles: reconciles.clone(),
    };
    let controller = DynamicController::new("label", informer, ControllerOptions::default());
    let running = tokio::spawn(controller.run(label, std::future::pending()));
    for index in 0..50 {
        create_map(&cluster, &format!("map-{index}")).await;
    }
    cluster.run_until_idle().await;
    let list = maps(&cluster).list().await.unwrap();
    let is_seen = |map: &Value| map["metadata"]["labels"]["seen"] == "yes";
    let unseen = list.items.iter().filter(|map| !is_seen(&map.to_value().unwrap()));
    assert_eq!((list.items.len(), unseen.count()), (50, 0));
    // Nothing follows.
    let settled = reconciles.load(Ordering::Relaxed);
    cluster.run_until_idle().await;
    assert_eq!(reconciles.load(Ordering::Relaxed), settled);
    running.abort();
    cluster.stop().await;
}

#[tokio::test]
async fn a_request_in_flight_is_not_idle() {
    let cluster = paused().await;
    let gets = RequestMatch::new(Verb::Get, "configmaps");
    let late = Rule::new(gets, Fault::Delay(Duration::from_secs(20)));
    cluster.server().faults().inject(late).unwrap();
    let maps = maps(&cluster);
    let asking = tokio::spawn(async move { maps.get("a").await.is_err() });
    cluster.run_until_idle().await;
    assert!(asking.is_finished());
    assert!(cluster.now().seconds - START.parse::<watchkeeper_meta::Time>().unwrap().seconds >= 20);
    cluster.stop().await;
}
