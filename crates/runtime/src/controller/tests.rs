//! The controller's guarantees, with informers fed by hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout};
use watchkeeper_meta::{ListMeta, ResourceVersion};
use watchkeeper_wire::ObjectOptions;

use super::*;
use crate::finalizer::FinalizerError;
use crate::informer::InformerOptions;
use crate::store::tests::object;
use crate::watcher::{Config, Failure, Input, ListRequest, Opening, Source, WatchRequest};

/// A server with a list and a channel of changes.
struct Fed {
    listed: Vec<Object>,
    changes: Mutex<Option<mpsc::UnboundedReceiver<Input<Object>>>>,
}

impl Source for Fed {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        let items = self.listed.iter().cloned().map(Input::Item);
        let end = Input::PageEnd(ListMeta {
            resource_version: ResourceVersion::new("5"),
            ..Default::default()
        });
        let answer = futures_util::stream::iter(items.chain([end]).collect::<Vec<_>>()).boxed();
        async { Ok(answer) }.boxed()
    }

    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        let Some(mut changes) = self.changes.lock().take() else {
            return std::future::pending().boxed();
        };
        async move { Ok(futures_util::stream::poll_fn(move |cx| changes.poll_recv(cx)).boxed()) }.boxed()
    }
}

pub(super) type Feed = mpsc::UnboundedSender<Input<Object>>;

pub(super) fn fed(listed: &[Object]) -> (Informer, Feed) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let source = Fed {
        listed: listed.to_vec(),
        changes: Mutex::new(Some(receiver)),
    };
    (Informer::start(Arc::new(source), Config::paged().into()), sender)
}

/// Acts as the test says, and records its calls.
#[derive(Clone)]
struct Script {
    seen: mpsc::UnboundedSender<String>,
    act: Arc<Act>,
}

type Act = dyn Fn(&Request) -> Result<Action, Failure> + Send + Sync;

impl Reconciler for Script {
    type Error = Failure;

    async fn reconcile(&self, request: Request) -> Result<Action, Failure> {
        let state = request
            .object
            .as_ref()
            .map_or("gone", |object| object.resource_version());
        let _ = self
            .seen
            .send(format!("{} {state} #{}", request.key, request.attempts));
        (self.act)(&request)
    }
}

struct Running {
    seen: mpsc::UnboundedReceiver<String>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Stopped>,
}

impl Running {
    fn start(
        controller: DynamicController,
        act: impl Fn(&Request) -> Result<Action, Failure> + Send + Sync + 'static,
    ) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let script = Script {
            seen: sender,
            act: Arc::new(act),
        };
        let shutdown = stopped.map(|_| ());
        let task = tokio::spawn(controller.run(script, shutdown));
        Self { seen, stop, task }
    }

    async fn next(&mut self) -> String {
        let next = timeout(Duration::from_secs(3600), self.seen.recv()).await;
        next.expect("a reconcile").expect("still running")
    }

    async fn take(&mut self, count: usize) -> Vec<String> {
        let mut seen = Vec::new();
        for _ in 0..count {
            seen.push(self.next().await);
        }
        seen
    }

    async fn stop(self) -> Stopped {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}

fn one_worker() -> ControllerOptions {
    ControllerOptions {
        workers: 1,
        ..Default::default()
    }
}

fn done(_: &Request) -> Result<Action, Failure> {
    Ok(Action::Done)
}

#[tokio::test(start_paused = true)]
async fn every_object_is_reconciled_then_every_change_deletes_included() {
    let (pods, changes) = fed(&[object("a/x@1"), object("a/y@2")]);
    let mut running = Running::start(DynamicController::new("test", pods, one_worker()), done);
    assert_eq!(running.take(2).await, ["a/x 1 #0", "a/y 2 #0"]);
    changes.send(Input::Modified(object("a/x@6"))).unwrap();
    assert_eq!(running.next().await, "a/x 6 #0");
    changes.send(Input::Deleted(object("a/x@7"))).unwrap();
    assert_eq!(running.next().await, "a/x gone #0");
    assert_eq!(
        running.stop().await,
        Stopped {
            reason: StopReason::Shutdown,
            aborted: 0
        }
    );
}

#[tokio::test(start_paused = true)]
async fn failures_come_back_later_and_later_and_success_forgets_them() {
    let (pods, changes) = fed(&[object("a/x@1")]);
    let act = |request: &Request| match request.attempts {
        0..3 => Err(Failure::NoEndBookmark),
        _ => Ok(Action::Done),
    };
    let start = Instant::now();
    let mut running = Running::start(DynamicController::new("test", pods, one_worker()), act);
    assert_eq!(
        running.take(4).await,
        ["a/x 1 #0", "a/x 1 #1", "a/x 1 #2", "a/x 1 #3"]
    );
    assert!(start.elapsed() >= Duration::from_millis(5 + 10 + 20));
    changes.send(Input::Modified(object("a/x@6"))).unwrap();
    assert_eq!(running.next().await, "a/x 6 #0");
}

#[tokio::test(start_paused = true)]
async fn a_panic_counts_as_a_failure_and_harms_nobody_else() {
    let (pods, _changes) = fed(&[object("a/bad@1"), object("a/good@2")]);
    let act = |request: &Request| {
        assert!(request.key.name() != "bad" || request.attempts > 0, "on purpose");
        Ok(Action::Done)
    };
    let mut running = Running::start(DynamicController::new("test", pods, one_worker()), act);
    assert_eq!(running.take(3).await, ["a/bad 1 #0", "a/good 2 #0", "a/bad 1 #1"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_can_ask_to_be_reconciled_again() {
    let (pods, _changes) = fed(&[object("a/x@1")]);
    let minute = Duration::from_secs(60);
    let mut running = Running::start(DynamicController::new("test", pods, one_worker()), move |_| {
        Ok(Action::After(minute))
    });
    let start = Instant::now();
    running.take(3).await;
    assert_eq!(start.elapsed().as_secs(), 120);
}

#[tokio::test(start_paused = true)]
async fn an_object_can_ask_never_to_be_reconciled_again() {
    let (pods, changes) = fed(&[object("a/x@1")]);
    let controller = DynamicController::new("test", pods, one_worker());
    let mut running = Running::start(controller, |_| Ok(Action::After(Duration::MAX)));
    running.next().await;
    changes.send(Input::Modified(object("a/x@6"))).unwrap();
    assert_eq!(running.next().await, "a/x 6 #0", "the worker lives on");
}

/// A pod controlled by a set.
fn owned(text: &str, owner: &str) -> Object {
    let plain = object(text);
    let json = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": plain.namespace(),
            "name": plain.name(),
            "resourceVersion": plain.resource_version(),
            "uid": "u",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Set", "name": owner, "uid": "o", "controller": true}],
        }
    });
    Object::from_json(json.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn changes_of_owned_objects_reconcile_their_owner() {
    let (sets, _sets) = fed(&[object("a/set@1")]);
    let (pods, changes) = fed(&[]);
    let resource = Resource::namespaced("apps", "v1beta1", "Set", "sets");
    let controller = DynamicController::new("test", sets, one_worker()).owns(pods, &resource);
    let mut running = Running::start(controller, done);
    running.next().await;
    changes.send(Input::Modified(owned("a/pod@6", "set"))).unwrap();
    assert_eq!(running.next().await, "a/set 1 #0");
    changes.send(Input::Deleted(owned("a/pod@7", "set"))).unwrap();
    assert_eq!(running.next().await, "a/set 1 #0", "deletes count");
    changes.send(Input::Modified(owned("a/pod@8", "set"))).unwrap();
    running.next().await;
    changes.send(Input::Modified(owned("a/pod@9", "other"))).unwrap();
    let mut both = running.take(2).await;
    both.sort();
    assert_eq!(
        both,
        ["a/other gone #0", "a/set 1 #0"],
        "the owner that was left counts, too"
    );
    changes.send(Input::Deleted(owned("a/pod@10", "set"))).unwrap();
    let mut both = running.take(2).await;
    both.sort();
    assert_eq!(
        both,
        ["a/other gone #0", "a/set 1 #0"],
        "even where it was left with the last change of all"
    );
}

#[tokio::test(start_paused = true)]
async fn a_predicate_sees_what_has_changed() {
    let (pods, changes) = fed(&[object("a/x@1")]);
    let predicate: Predicate = Arc::new(|delta| !matches!(delta, Delta::Updated { .. }));
    let options = ControllerOptions {
        predicate: Some(predicate),
        ..one_worker()
    };
    let mut running = Running::start(DynamicController::new("test", pods, options), done);
    running.next().await;
    changes.send(Input::Modified(object("a/x@6"))).unwrap();
    changes.send(Input::Deleted(object("a/x@7"))).unwrap();
    assert_eq!(running.next().await, "a/x gone #0");
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_predicate_panics_counts() {
    let (pods, changes) = fed(&[]);
    let predicate: Predicate = Arc::new(|delta| {
        assert_ne!(delta.object().name(), "bad", "on purpose");
        true
    });
    let options = ControllerOptions {
        predicate: Some(predicate),
        ..one_worker()
    };
    let mut running = Running::start(DynamicController::new("test", pods, options), done);
    changes.send(Input::Modified(object("a/bad@6"))).unwrap();
    changes.send(Input::Modified(object("a/good@7"))).unwrap();
    assert_eq!(running.take(2).await, ["a/bad 6 #0", "a/good 7 #0"]);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_is_asked_about_the_next_change() {
    let (sets, _sets) = fed(&[]);
    let (pods, changes) = fed(&[]);
    let mapping: Mapping = Arc::new(|object| {
        assert_ne!(object.name(), "bad", "on purpose");
        vec![object.key()]
    });
    let controller = DynamicController::new("test", sets, one_worker()).watches(pods, mapping, None);
    let mut running = Running::start(controller, done);
    changes.send(Input::Modified(object("a/bad@6"))).unwrap();
    changes.send(Input::Modified(object("a/good@7"))).unwrap();
    assert_eq!(running.next().await, "a/good gone #0");
}

#[tokio::test(start_paused = true)]
async fn other_systems_can_ask_for_a_reconcile() {
    let (pods, _changes) = fed(&[]);
    let controller = DynamicController::new("test", pods, one_worker());
    let handle = controller.handle();
    let mut running = Running::start(controller, done);
    assert!(handle.reconcile(ObjectKey::new("a", "x")));
    assert_eq!(running.next().await, "a/x gone #0");
    running.stop().await;
    assert!(!handle.reconcile(ObjectKey::new("a", "x")), "it has ended");
}

/// Never ends, and counts the running calls by key.
struct Stuck {
    running: Mutex<HashMap<ObjectKey, usize>>,
    most: AtomicUsize,
    release: Notify,
}

impl Reconciler for Arc<Stuck> {
    type Error = Failure;

    async fn reconcile(&self, request: Request) -> Result<Action, Failure> {
        let total = {
            let mut running = self.running.lock();
            let count = running.entry(request.key.clone()).or_default();
            *count += 1;
            assert_eq!(*count, 1, "one at a time per key");
            running.values().sum::<usize>()
        };
        self.most.fetch_max(total, Ordering::SeqCst);
        self.release.notified().await;
        *self.running.lock().get_mut(&request.key).unwrap() -= 1;
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn workers_share_the_keys_and_a_shutdown_has_a_deadline() {
    let objects: Vec<Object> = (0..10).map(|number| object(&format!("a/x{number}@1"))).collect();
    let (pods, _changes) = fed(&objects);
    let options = ControllerOptions {
        workers: 3,
        ..Default::default()
    };
    let stuck = Arc::new(Stuck {
        running: Mutex::default(),
        most: AtomicUsize::new(0),
        release: Notify::new(),
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let controller = DynamicController::new("test", pods, options);
    let task = tokio::spawn(controller.run(stuck.clone(), stopped.map(|_| ())));
    while stuck.most.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    stop.send(()).unwrap();
    tokio::task::yield_now().await;
    stuck.release.notify_one();
    assert_eq!(
        task.await.unwrap(),
        Stopped {
            reason: StopReason::Shutdown,
            aborted: 2
        },
        "one was let go and began nothing new"
    );
    assert_eq!(start.elapsed(), SHUTDOWN_DEADLINE);
    assert_eq!(stuck.most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_leaves_room_for_a_shutdown() {
    let objects: Vec<Object> = (0..1000)
        .map(|number| object(&format!("a/x{number}@1")))
        .collect();
    let (pods, _changes) = fed(&objects);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let mut running = Running::start(DynamicController::new("test", pods, one_worker()), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(Action::Done)
    });
    running.next().await;
    running.stop().await;
    assert!(count.load(Ordering::SeqCst) < 1000, "it did everything first");
}

/// A server that never answers.
struct Silent;

impl Source for Silent {
    type Object = Object;
    fn list(&self, _: ListRequest) -> Opening<Object> {
        std::future::pending().boxed()
    }
    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        std::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_watched_does_not_hold_up_the_others_for_ever() {
    let (pods, _changes) = fed(&[object("a/x@1")]);
    let silent = Informer::start(Arc::new(Silent), InformerOptions::default());
    let controller =
        DynamicController::new("test", pods, one_worker()).watches(silent, Arc::new(|_| vec![]), None);
    let start = Instant::now();
    let mut running = Running::start(controller, done);
    assert_eq!(running.next().await, "a/x 1 #0");
    assert!(start.elapsed() >= SYNC_PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn a_controller_ends_with_the_informer_of_its_primary_kind() {
    let (pods, _changes) = fed(&[object("a/x@1")]);
    let mut running = Running::start(DynamicController::new("test", pods.clone(), one_worker()), done);
    running.next().await;
    pods.stop().await;
    let stopped = timeout(Duration::from_secs(3600), running.task).await;
    let expected = Stopped {
        reason: StopReason::PrimaryEnded,
        aborted: 0,
    };
    assert_eq!(stopped.expect("it ends").unwrap(), expected);

    let again = DynamicController::new("test", pods, one_worker());
    let running = Running::start(again, done);
    let stopped = timeout(Duration::from_secs(3600), running.task).await;
    assert_eq!(stopped.expect("without a first list").unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_again_and_again_delays_no_other() {
    struct Failing;
    impl Source for Failing {
        type Object = Object;
        fn list(&self, _: ListRequest) -> Opening<Object> {
            let end = Input::PageEnd(ListMeta {
                resource_version: ResourceVersion::new("5"),
                ..Default::default()
            });
            async { Ok(futures_util::stream::iter([end]).boxed()) }.boxed()
        }
        fn watch(&self, _: WatchRequest) -> Opening<Object> {
            async { Err(watchkeeper_meta::Status::internal_error("broken").into()) }.boxed()
        }
    }
    let (pods, changes) = fed(&[object("a/x@1")]);
    let failing = Informer::start(Arc::new(Failing), Config::paged().into());
    let controller = DynamicController::new("test", pods, one_worker()).watches(
        failing.clone(),
        Arc::new(|_| vec![]),
        None,
    );
    let mut running = Running::start(controller, done);
    running.next().await;
    while failing.health().failing.is_none() {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    for version in 6..16 {
        changes
            .send(Input::Modified(object(&format!("a/x@{version}"))))
            .unwrap();
        running.next().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(failing.health().failing.is_some(), "and still it fails");
}

/// Reconciles one key each time it is allowed to.
struct Allowed {
    seen: mpsc::UnboundedSender<String>,
    permits: tokio::sync::Semaphore,
}

impl Reconciler for Arc<Allowed> {
    type Error = Failure;

    async fn reconcile(&self, request: Request) -> Result<Action, Failure> {
        let _ = self.seen.send(request.key.to_string());
        self.permits.acquire().await.unwrap().forget();
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_overtakes_the_objects_of_the_first_list() {
    let (pods, changes) = fed(&[object("a/x@1"), object("a/y@2"), object("a/z@3")]);
    let (sender, mut seen) = mpsc::unbounded_channel();
    let allowed = Arc::new(Allowed {
        seen: sender,
        permits: tokio::sync::Semaphore::new(0),
    });
    let controller = DynamicController::new("test", pods, one_worker());
    let waiting = controller.stats();
    let running = tokio::spawn(controller.run(allowed.clone(), std::future::pending()));
    assert_eq!(seen.recv().await.unwrap(), "a/x");
    changes.send(Input::Modified(object("a/new@6"))).unwrap();
    while waiting().ready < 3 {
        tokio::task::yield_now().await;
    }
    allowed.permits.add_permits(3);
    assert_eq!(seen.recv().await.unwrap(), "a/new");
    assert_eq!(seen.recv().await.unwrap(), "a/y");
    running.abort();
}

/// Blocks its thread until another reconcile runs at the same time.
struct Meeting {
    here: std::sync::Barrier,
    met: mpsc::UnboundedSender<()>,
}

impl Reconciler for Meeting {
    type Error = Failure;

    async fn reconcile(&self, _: Request) -> Result<Action, Failure> {
        self.here.wait();
        let _ = self.met.send(());
        Ok(Action::Done)
    }
}

#[test]
fn workers_run_on_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (pods, _changes) = fed(&[object("a/x@1"), object("a/y@2")]);
        let (met, mut meetings) = mpsc::unbounded_channel();
        let meeting = Meeting {
            here: std::sync::Barrier::new(2),
            met,
        };
        let controller = DynamicController::new("test", pods, ControllerOptions::default());
        let _running = tokio::spawn(controller.run(meeting, std::future::pending()));
        // With a single thread, the first would block it forever.
        let met = timeout(Duration::from_secs(30), meetings.recv()).await;
        met.expect("they meet").expect("running");
    });
    runtime.shutdown_background();
}

/// A pod of this version, generation and uid.
fn generated(version: &str, generation: i64, uid: &str) -> Object {
    let json = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "resourceVersion": version, "generation": generation, "uid": uid},
    });
    Object::from_json(json.to_string().as_bytes(), &ObjectOptions::default()).unwrap()
}

#[test]
fn generation_predicate_keeps_adds_deletes_and_real_changes() {
    let predicate = generation_changed();
    let one = generated("1", 1, "u");
    let cause = Cause::Watch;
    assert!(predicate(&Delta::Added {
        object: one.clone(),
        cause
    }));
    assert!(predicate(&Delta::Deleted {
        old: one.clone(),
        last: one.clone(),
        final_state: true,
        cause
    }));
    let updated = |old: Object, new: Object| predicate(&Delta::Updated { old, new, cause });
    assert!(!updated(one.clone(), generated("2", 1, "u")), "status alone");
    assert!(updated(one.clone(), generated("2", 2, "u")));
    assert!(updated(one, generated("3", 1, "other")), "recreated");
    assert!(
        updated(generated("1", 0, "u"), generated("2", 0, "u")),
        "the kind has no generations"
    );
}

#[tokio::test(start_paused = true)]
async fn a_resync_reconciles_what_has_not_changed_whatever_the_predicate() {
    let (informer, _changes) = fed(&[object("a/x@1")]);
    let options = ControllerOptions {
        resync: Resync::Every(Duration::from_secs(600)),
        predicate: Some(generation_changed()),
        ..Default::default()
    };
    let mut running = Running::start(DynamicController::new("test", informer, options), |_| {
        Ok(Action::Done)
    });
    assert_eq!(running.next().await, "a/x 1 #0");
    let start = Instant::now();
    assert_eq!(running.next().await, "a/x 1 #0");
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    assert!((9.0..=11.0).contains(&minutes), "{minutes}");
}

fn failing(_: &Request) -> Result<Action, Failure> {
    Err(Failure::NoEndBookmark)
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_waits_for_the_next_change() {
    let (pods, changes) = fed(&[object("a/x@1")]);
    let options = ControllerOptions {
        error_policy: Some(Arc::new(|_| OnError::GiveUp)),
        ..one_worker()
    };
    let mut running = Running::start(DynamicController::new("test", pods, options), failing);
    assert_eq!(running.next().await, "a/x 1 #0");
    assert!(
        timeout(Duration::from_secs(60), running.seen.recv())
            .await
            .is_err()
    );
    changes.send(Input::Modified(object("a/x@6"))).unwrap();
    assert_eq!(running.next().await, "a/x 6 #0");
}

#[tokio::test(start_paused = true)]
async fn an_error_policy_chooses_the_delay_and_failures_are_counted() {
    let (pods, _changes) = fed(&[object("a/x@1")]);
    let policy: ErrorPolicy = Arc::new(|failed| match failed.attempts {
        0 => OnError::RetryAfter(Duration::from_secs(60)),
        1 => OnError::Retry,
        _ => OnError::GiveUp,
    });
    let options = ControllerOptions {
        error_policy: Some(policy),
        ..one_worker()
    };
    let mut running = Running::start(DynamicController::new("test", pods, options), failing);
    assert_eq!(running.next().await, "a/x 1 #0");
    let begin = Instant::now();
    assert_eq!(running.next().await, "a/x 1 #1");
    assert_eq!(begin.elapsed(), Duration::from_secs(60));
    assert_eq!(running.next().await, "a/x 1 #2");
    assert_eq!(begin.elapsed().as_secs(), 60, "the limiter's delay is short");
    assert!(
        timeout(Duration::from_secs(3600), running.seen.recv())
            .await
            .is_err()
    );
}

/// As errors of this library keep their sources.
#[derive(Debug, thiserror::Error)]
#[error("a step failed")]
struct Boxed(#[source] Box<Failure>);

#[test]
fn an_error_is_found_behind_those_that_it_caused() {
    let failure = || BoxError::from(Failure::NoEndBookmark);
    let found = |error: BoxError| ReconcileError::Failed(error).find::<Failure>().is_some();
    assert!(found(failure()));
    assert!(found(FinalizerError::Apply(failure()).into()));
    assert!(!found("another".into()));
    assert!(found(Boxed(Box::new(Failure::NoEndBookmark)).into()));
}

#[tokio::test(start_paused = true)]
async fn a_worker_outlives_an_error_policy_and_a_grouping_that_panic() {
    let (pods, changes) = fed(&[object("a/x@1")]);
    let options = ControllerOptions {
        error_policy: Some(Arc::new(|_| panic!("on purpose"))),
        groups: Some(KeyGroups::new(1, |_| panic!("on purpose"))),
        ..one_worker()
    };
    let act = |request: &Request| match request.attempts {
        0 => failing(request),
        _ => done(request),
    };
    let mut running = Running::start(DynamicController::new("test", pods, options), act);
    assert_eq!(running.take(2).await, ["a/x 1 #0", "a/x 1 #1"], "it is retried");
    changes.send(Input::Modified(object("a/x@6"))).unwrap();
    assert_eq!(running.next().await, "a/x 6 #0");
}

/// The first reconcile never ends.
struct StuckOnce {
    calls: mpsc::UnboundedSender<u32>,
}

impl Reconciler for StuckOnce {
    type Error = BoxError;

    async fn reconcile(&self, request: Request) -> Result<Action, BoxError> {
        let _ = self.calls.send(request.attempts);
        if request.attempts == 0 {
            std::future::pending::<()>().await;
        }
        Ok(Action::Done)
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_takes_too_long_is_dropped_and_tried_again() {
    let (pods, _changes) = fed(&[object("a/x@1")]);
    let metrics = Metrics::new();
    let options = ControllerOptions {
        reconcile_timeout: Some(Duration::from_secs(10)),
        metrics: Some(metrics.clone()),
        ..one_worker()
    };
    let (sender, mut calls) = mpsc::unbounded_channel();
    let controller = DynamicController::new("test", pods, options);
    let stuck = StuckOnce { calls: sender };
    let task = tokio::spawn(controller.run(stuck, std::future::pending()));
    assert_eq!(calls.recv().await, Some(0));
    let begin = Instant::now();
    assert_eq!(calls.recv().await, Some(1));
    assert_eq!(begin.elapsed().as_secs(), 10);
    let text = metrics.render();
    let count = "controller_runtime_reconcile_timeouts_total{controller=\"test\"} 1";
    assert!(text.contains(count), "{text}");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn changes_that_follow_each_other_are_reconciled_together() {
    let (pods, changes) = fed(&[]);
    let options = ControllerOptions {
        debounce: Duration::from_secs(10),
        ..one_worker()
    };
    let informer = pods.clone();
    let mut running = Running::start(DynamicController::new("test", pods, options), done);
    informer.synced(Duration::from_secs(10)).await.unwrap();
    let begin = Instant::now();
    for (second, version) in (6..=9).enumerate() {
        tokio::time::sleep_until(begin + Duration::from_secs(3 * second as u64)).await;
        changes
            .send(Input::Modified(object(&format!("a/x@{version}"))))
            .unwrap();
    }
    assert_eq!(running.next().await, "a/x 9 #0");
    assert_eq!(begin.elapsed(), Duration::from_secs(10), "counted from the first");
    assert!(
        timeout(Duration::from_secs(3600), running.seen.recv())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn all_objects_can_be_asked_for_at_once() {
    let (pods, _changes) = fed(&[object("a/x@1"), object("a/y@2")]);
    let controller = DynamicController::new("test", pods, one_worker());
    let handle = controller.handle();
    let mut running = Running::start(controller, done);
    assert_eq!(running.take(2).await, ["a/x 1 #0", "a/y 2 #0"]);
    assert_eq!(handle.reconcile_all(), 2);
    assert_eq!(running.take(2).await, ["a/x 1 #0", "a/y 2 #0"]);
    running.stop().await;
    assert_eq!(handle.reconcile_all(), 0, "it has ended");
}

#[tokio::test(start_paused = true)]
async fn one_group_does_not_take_all_workers() {
    let names = ["a/1@1", "a/2@1", "a/3@1", "b/1@1", "b/2@1"];
    let (pods, _changes) = fed(&names.map(object));
    let options = ControllerOptions {
        workers: 4,
        groups: Some(KeyGroups::per_namespace(1)),
        ..Default::default()
    };
    let stuck = Arc::new(Stuck {
        running: Mutex::default(),
        most: AtomicUsize::new(0),
        release: Notify::new(),
    });
    let controller = DynamicController::new("test", pods, options);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(controller.run(stuck.clone(), stopped.map(|_| ())));
    let busy = || {
        let running = stuck.running.lock();
        let busy = running.iter().filter(|(_, count)| **count > 0);
        let mut namespaces: Vec<String> = busy.map(|(key, _)| key.namespace().to_owned()).collect();
        namespaces.sort();
        (namespaces, running.len())
    };
    let both = vec!["a".to_owned(), "b".to_owned()];
    // Each release ends one; the next of its group follows until none is left.
    for begun in 2..=4 {
        while busy() != (both.clone(), begun) {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(busy(), (both.clone(), begun), "nobody else of the group begins");
        stuck.release.notify_one();
    }
    while busy().1 < 5 || busy().0.len() > 1 {
        stuck.release.notify_one();
        tokio::task::yield_now().await;
    }
    stuck.release.notify_waiters();
    stop.send(()).unwrap();
    assert_eq!(task.await.unwrap().aborted, 0);
    assert_eq!(stuck.most.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_counted_under_controller_runtimes_names() {
    let (pods, _changes) = fed(&["a/bad@1", "a/good@1", "a/later@1", "a/panic@1"].map(object));
    let metrics = Metrics::new();
    let options = ControllerOptions {
        metrics: Some(metrics.clone()),
        error_policy: Some(Arc::new(|_| OnError::GiveUp)),
        ..one_worker()
    };
    let act = |request: &Request| match request.key.name() {
        "bad" => failing(request),
        "later" => Ok(Action::After(Duration::from_secs(3600))),
        "panic" => panic!("on purpose"),
        _ => Ok(Action::Done),
    };
    let mut running = Running::start(DynamicController::new("pods", pods, options), act);
    running.take(4).await;
    let workers = r#"controller_runtime_max_concurrent_reconciles{controller="pods"} 1"#;
    assert!(metrics.render().contains(workers), "{}", metrics.render());
    running.stop().await;
    let text = metrics.render();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    expect_test::expect![[r#"
        controller_runtime_reconcile_total{controller="pods",result="error"} 2
        controller_runtime_reconcile_total{controller="pods",result="requeue_after"} 1
        controller_runtime_reconcile_total{controller="pods",result="success"} 1
        controller_runtime_reconcile_errors_total{controller="pods"} 2
        controller_runtime_terminal_reconcile_errors_total{controller="pods"} 1
        controller_runtime_reconcile_panics_total{controller="pods"} 1
        controller_runtime_reconcile_timeouts_total{controller="pods"} 0
        stale_sync_skips_total{controller="pods"} 0
        controller_runtime_max_concurrent_reconciles{controller="pods"} 0
        controller_runtime_active_workers{controller="pods"} 0"#]]
    .assert_eq(&lines[..10].join("\n"));
    assert!(text.contains(r#"controller_runtime_reconcile_time_seconds_count{controller="pods"} 4"#));
    assert!(text.contains(r#"workqueue_adds_total{name="pods"} 4"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_ready_when_its_informers_are() {
    let (pods, _changes) = fed(&[]);
    let silent = Informer::start(Arc::new(Silent), InformerOptions::default());
    let script = Script {
        seen: mpsc::unbounded_channel().0,
        act: Arc::new(done),
    };
    let alone = DynamicController::new("test", pods.clone(), one_worker()).reconcile(script.clone());
    assert_eq!(alone.name(), "test");
    let readiness = alone.readiness();
    assert!(!readiness.is_ready());
    pods.synced(Duration::from_secs(10)).await.unwrap();
    assert!(readiness.is_ready());
    let controller = DynamicController::new("test", pods.clone(), one_worker());
    let both = controller
        .watches(silent, Arc::new(|_| vec![]), None)
        .reconcile(script);
    let error = both.readiness().check().unwrap_err();
    assert!(
        error.to_string().contains("waiting for the first list"),
        "{error}"
    );
    drop((alone, both, pods));
    assert!(!readiness.is_ready(), "nobody runs it");
}

/// Records the fields of spans.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Spans {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                self.0.push_str(&format!(" {}={value:?}", field.name()));
            }
        }
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        self.0.lock().push(text.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_runs_in_a_span_that_names_it() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // Makes tracing ask this thread too whether the call site is enabled.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let (pods, _changes) = fed(&[object("a/x@1")]);
    let act = |request: &Request| match request.attempts {
        0 => failing(request),
        _ => Ok(Action::Done),
    };
    let mut running = Running::start(DynamicController::new("pods", pods, one_worker()), act);
    running.take(2).await;
    let reconciles = |line: &&String| line.starts_with("reconcile");
    let spans = spans.0.lock().clone();
    let spans: Vec<_> = spans.iter().filter(reconciles).collect();
    assert_eq!(
        spans,
        [
            r#"reconcile controller="pods" key=a/x attempt=1"#,
            r#"reconcile controller="pods" key=a/x attempt=2"#,
        ]
    );
}
