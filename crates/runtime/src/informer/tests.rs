//! The informer's guarantees, with a source whose answers the test sends one by one.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use watchkeeper_meta::{GroupResource, ListMeta, ObjectKey, ResourceVersion, Status};
use watchkeeper_wire::Object;

use super::*;
use crate::delta::Cause;
use crate::metrics::Metrics;
use crate::store::tests::{object, show, show_delta};
use crate::watcher::{Input, ListRequest, Opening, Source, Unread, WatchRequest};

const SOON: Duration = Duration::from_secs(5);

/// A server played by the test: each request gets the next channel, which the test writes to.
struct Played {
    answers: Mutex<Vec<Result<mpsc::UnboundedReceiver<Input<Object>>, Failure>>>,
}

type Voice = mpsc::UnboundedSender<Input<Object>>;

impl Played {
    fn answer(&self) -> Opening<Object> {
        let mut answers = self.answers.lock();
        if answers.is_empty() {
            return std::future::pending().boxed();
        }
        let answer = answers.remove(0);
        async move {
            let mut receiver = answer?;
            Ok(futures_util::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed())
        }
        .boxed()
    }
}

impl Source for Played {
    type Object = Object;
    fn list(&self, _: ListRequest) -> Opening<Object> {
        self.answer()
    }
    fn watch(&self, _: WatchRequest) -> Opening<Object> {
        self.answer()
    }
}

fn played(refusals: Vec<Failure>, voices: usize) -> (Arc<Played>, Vec<Voice>) {
    let (voices, ears): (Vec<_>, Vec<_>) = (0..voices).map(|_| mpsc::unbounded_channel()).unzip();
    let answers = refusals.into_iter().map(Err).chain(ears.into_iter().map(Ok));
    let played = Played {
        answers: Mutex::new(answers.collect()),
    };
    (Arc::new(played), voices)
}

fn paged() -> InformerOptions {
    Config::paged().into()
}

fn page_end(version: &str) -> Input<Object> {
    Input::PageEnd(ListMeta {
        resource_version: ResourceVersion::new(version),
        ..Default::default()
    })
}

/// An informer that has listed `a/x@1` and watches; the voice feeds its watch.
async fn synced() -> (Informer, Voice) {
    let (source, mut voices) = played(vec![], 2);
    let informer = Informer::start(source, paged());
    voices[0].send(Input::Item(object("a/x@1"))).unwrap();
    voices[0].send(page_end("5")).unwrap();
    informer.synced(SOON).await.unwrap();
    (informer, voices.remove(1))
}

fn show_notice(notice: Notice) -> String {
    match notice {
        Notice::Change(delta) => show_delta(&delta),
        Notice::Synced => "synced".into(),
    }
}

/// The next notices, within a short time.
async fn told(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        let notice = timeout(SOON, subscription.next()).await.expect("a notice");
        told.push(show_notice(notice.expect("not the end")));
    }
    told
}

#[tokio::test(start_paused = true)]
async fn an_informer_is_shown_for_as_long_as_it_is_held() {
    let (informer, _voice) = synced().await;
    let metrics = Metrics::new();
    metrics.informer("maps", &informer);
    let shown = metrics.render();
    for line in ["informer_synced", "informer_store_objects"] {
        let line = format!("{line}{{name=\"maps\"}} 1\n");
        assert!(shown.contains(&line), "{line} in {shown}");
    }
    drop(informer);
    assert!(!metrics.render().contains("maps"), "it has ended");
}

#[tokio::test(start_paused = true)]
async fn subscribers_are_told_the_list_then_what_changes() {
    let (source, voices) = played(vec![], 2);
    let informer = Informer::start(source, paged());
    let mut early = informer.subscribe(Default::default());
    voices[0].send(Input::Item(object("a/x@1"))).unwrap();
    voices[0].send(page_end("5")).unwrap();
    assert_eq!(told(&mut early, 2).await, ["+a/x@1 Initial", "synced"]);
    voices[1].send(Input::Modified(object("a/x@6"))).unwrap();
    voices[1].send(Input::Deleted(object("a/x@7"))).unwrap();
    assert_eq!(told(&mut early, 2).await, ["a/x@1→a/x@6 Watch", "-a/x@7 Watch"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_is_told_what_is_there_without_gap_or_repeat() {
    let (informer, voice) = synced().await;
    voice.send(Input::Modified(object("a/y@6"))).unwrap();
    informer
        .store()
        .wait_for(&ResourceVersion::new("6"), SOON)
        .await
        .unwrap();
    let mut late = informer.subscribe(Default::default());
    voice.send(Input::Modified(object("a/z@7"))).unwrap();
    let expected = ["+a/x@1 Initial", "+a/y@6 Initial", "synced", "+a/z@7 Watch"];
    assert_eq!(told(&mut late, 4).await, expected);
}

#[tokio::test(start_paused = true)]
async fn the_store_shows_a_change_before_a_subscriber_is_told() {
    let (informer, voice) = synced().await;
    let mut subscription = informer.subscribe(Default::default());
    told(&mut subscription, 2).await;
    for version in 6..30 {
        voice
            .send(Input::Modified(object(&format!("a/x@{version}"))))
            .unwrap();
        let Some(Notice::Change(delta)) = subscription.next().await else {
            panic!("a change")
        };
        let stored = informer.store().get(&delta.key()).unwrap();
        assert_eq!(show(&stored), show(delta.object()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_bounded_and_told_the_sum() {
    let (informer, voice) = synced().await;
    let small = SubscribeOptions {
        capacity: 3,
        ..Default::default()
    };
    let (mut slow, mut quick) = (informer.subscribe(small), informer.subscribe(Default::default()));
    told(&mut slow, 2).await;
    told(&mut quick, 2).await;
    for version in 6..106 {
        voice
            .send(Input::Modified(object(&format!("a/x@{version}"))))
            .unwrap();
        told(&mut quick, 1).await;
    }
    assert!(slow.backlog() <= 3);
    let mut seen = told(&mut slow, 3).await;
    assert_eq!(
        seen,
        ["a/x@1→a/x@6 Watch", "a/x@6→a/x@7 Watch", "a/x@7→a/x@8 Watch"]
    );
    seen = told(&mut slow, 1).await;
    assert_eq!(
        seen,
        ["a/x@8→a/x@105 Watch"],
        "the steps in between are told as one"
    );
    assert_eq!(slow.coalesced(), 97);
    voice.send(Input::Modified(object("a/x@200"))).unwrap();
    assert_eq!(told(&mut slow, 1).await, ["a/x@105→a/x@200 Watch"]);
}

#[tokio::test(start_paused = true)]
async fn a_filter_turns_entering_and_leaving_into_add_and_delete() {
    let (informer, voice) = synced().await;
    let filter: Filter = Arc::new(|object| object.uid() == "in");
    let options = SubscribeOptions {
        filter: Some(filter),
        ..Default::default()
    };
    let mut subscription = informer.subscribe(options);
    assert_eq!(told(&mut subscription, 1).await, ["synced"]);
    for text in ["a/x@6#in", "a/x@7#in", "a/x@8#out", "a/x@9#out", "a/y@10#in"] {
        voice.send(Input::Modified(object(text))).unwrap();
    }
    voice.send(Input::Deleted(object("a/y@11#in"))).unwrap();
    let expected = [
        "+a/x@6 Watch",
        "a/x@6→a/x@7 Watch",
        "-a/x@7? Watch",
        "+a/y@10 Watch",
        "-a/y@11 Watch",
    ];
    assert_eq!(told(&mut subscription, 5).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_filter_judges_a_delete_by_what_was_told() {
    let (informer, voice) = synced().await;
    let filter: Filter = Arc::new(|object| object.uid() == "in");
    let mut subscription = informer.subscribe(SubscribeOptions {
        filter: Some(filter),
        ..Default::default()
    });
    voice.send(Input::Modified(object("a/y@6#in"))).unwrap();
    voice.send(Input::Deleted(object("a/y@7#out"))).unwrap();
    voice.send(Input::Modified(object("a/z@8#out"))).unwrap();
    voice.send(Input::Deleted(object("a/z@9#in"))).unwrap();
    voice.send(Input::Modified(object("a/end@10#in"))).unwrap();
    assert_eq!(
        told(&mut subscription, 4).await,
        ["synced", "+a/y@6 Watch", "-a/y@7 Watch", "+a/end@10 Watch"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_recreated_object_is_told_in_two_where_asked() {
    let (informer, voice) = synced().await;
    let options = SubscribeOptions {
        split_recreated: true,
        ..Default::default()
    };
    let mut subscription = informer.subscribe(options);
    told(&mut subscription, 2).await;
    voice.send(Input::Modified(object("a/x@6#second"))).unwrap();
    assert_eq!(
        told(&mut subscription, 2).await,
        ["-a/x@1? Watch", "+a/x@6 Watch"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_resync_tells_every_object_again_about_as_often_as_asked() {
    let (informer, _voice) = synced().await;
    let period = Duration::from_secs(60);
    let mut subscription = informer.subscribe(SubscribeOptions {
        resync: Resync::Every(period),
        ..Default::default()
    });
    told(&mut subscription, 2).await;
    let start = tokio::time::Instant::now();
    for _ in 0..3 {
        let notice = subscription.next().await.map(show_notice);
        assert_eq!(notice.as_deref(), Some("a/x@1→a/x@1 Resync"));
    }
    let elapsed = start.elapsed();
    assert!(
        (3 * period).mul_f64(0.89) < elapsed && elapsed < (3 * period).mul_f64(1.11),
        "{elapsed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_inherits_the_resync_of_its_informer_unless_it_says_otherwise() {
    let (source, voices) = played(vec![], 2);
    let options = InformerOptions {
        resync: Some(Duration::from_secs(600)),
        ..paged()
    };
    let informer = Informer::start(source, options);
    voices[0].send(Input::Item(object("a/x@1"))).unwrap();
    voices[0].send(page_end("5")).unwrap();
    let subscribe = |resync| {
        informer.subscribe(SubscribeOptions {
            resync,
            ..Default::default()
        })
    };
    let minute = Resync::Every(Duration::from_secs(60));
    let [mut inherits, mut never, mut often] = [Resync::Inherited, Resync::Never, minute].map(subscribe);
    for subscription in [&mut inherits, &mut never, &mut often] {
        assert_eq!(told(subscription, 2).await, ["+a/x@1 Initial", "synced"]);
    }
    let start = tokio::time::Instant::now();
    let minutes = async |subscription: &mut Subscription| {
        let notice = timeout(Duration::from_secs(3600), subscription.next())
            .await
            .ok()?;
        assert_eq!(notice.map(show_notice).as_deref(), Some("a/x@1→a/x@1 Resync"));
        Some((start.elapsed().as_secs_f64() / 60.0).round())
    };
    assert_eq!(minutes(&mut often).await, Some(1.0));
    assert!(
        minutes(&mut inherits)
            .await
            .is_some_and(|at| (9.0..=11.0).contains(&at))
    );
    assert_eq!(minutes(&mut never).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_refused_informer_says_why_and_recovers() {
    let forbidden = Status::forbidden(&GroupResource::new("", "pods"), "", "not allowed");
    let (source, voices) = played(vec![forbidden.into()], 2);
    let informer = Informer::start(source, paged());
    let error = informer.synced(Duration::from_millis(100)).await.unwrap_err();
    let expected = "not synced: waiting for the first list, failing because pods is forbidden: not allowed";
    assert_eq!(error.to_string(), expected);
    voices[0].send(page_end("5")).unwrap();
    informer.synced(SOON).await.unwrap();
    assert!(informer.health().failing.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_fails_is_told_although_another_is_heard() {
    let forbidden = Status::forbidden(&GroupResource::new("", "pods"), "", "not allowed");
    let ((one, first), (two, second)) = (played(vec![forbidden.into()], 2), played(vec![], 2));
    let sources: Vec<(String, Arc<ObjectSource>)> = vec![("a".into(), one), ("b".into(), two)];
    let informer = Informer::start_in_namespaces(sources, paged());
    let mut health = informer.watch_health();
    health.wait_for(|health| health.failing.is_some()).await.unwrap();
    second[0].send(page_end("5")).unwrap();
    second[1].send(Input::Modified(object("b/y@6"))).unwrap();
    while informer.store().snapshot().is_empty() {
        tokio::task::yield_now().await;
    }
    let error = informer.synced(Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().ends_with("not allowed"), "{error}");
    first[0].send(page_end("7")).unwrap();
    informer.synced(SOON).await.unwrap();
    assert!(informer.health().failing.is_none());
}

/// Feeds `bad` to an informer with these options, which must end so that nobody waits forever.
async fn ends_at_bad(options: InformerOptions) {
    let (source, voices) = played(vec![], 2);
    let informer = Informer::start(source, options);
    voices[0].send(page_end("5")).unwrap();
    let mut subscription = informer.subscribe(Default::default());
    assert_eq!(told(&mut subscription, 1).await, ["synced"]);
    voices[1].send(Input::Modified(object("a/bad@6"))).unwrap();
    let end = timeout(SOON, subscription.next()).await;
    assert!(end.expect("nobody waits for ever").is_none());
    assert_eq!(informer.health().phase, HealthPhase::Stopped);
    let never = ResourceVersion::new("6");
    let waits = informer.store().wait_for(&never, SOON).await;
    assert!(waits.is_err_and(|error| error.ended), "nobody waits for ever");
}

#[tokio::test(start_paused = true)]
async fn an_informer_whose_transform_panics_ends_and_says_so() {
    let transform: Transform = Arc::new(|object| {
        assert_ne!(object.name(), "bad", "on purpose");
        object
    });
    ends_at_bad(InformerOptions {
        transform: Some(transform),
        ..paged()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_whose_index_function_panics_ends_and_says_so() {
    let function: IndexFn = Arc::new(|object| {
        assert_ne!(object.name(), "bad", "on purpose");
        Vec::new()
    });
    ends_at_bad(InformerOptions {
        indexes: vec![("names".into(), function)],
        ..paged()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_open_again_is_healthy_even_if_nothing_happens() {
    let (source, voices) = played(vec![], 3);
    let informer = Informer::start(source, paged());
    voices[0].send(page_end("5")).unwrap();
    informer.synced(SOON).await.unwrap();
    voices[1]
        .send(Input::Failed(Status::service_unavailable("restarting").into()))
        .unwrap();
    let mut health = informer.watch_health();
    health.wait_for(|health| health.failing.is_some()).await.unwrap();
    let healthy = health.wait_for(|health| health.failing.is_none());
    timeout(SOON, healthy).await.expect("without an event").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wrong_request_stops_the_informer_and_ends_its_subscribers() {
    let (source, _) = played(vec![Status::bad_request("unable to parse").into()], 0);
    let informer = Informer::start(source, paged());
    let mut subscription = informer.subscribe(Default::default());
    assert!(subscription.next().await.is_none());
    let error = informer.synced(SOON).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "not synced: stopped, failing because unable to parse"
    );
    assert!(informer.subscribe(Default::default()).next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_last_user() {
    let (source, mut voices) = played(vec![], 2);
    let informer = Informer::start(source, paged());
    voices[0].send(page_end("5")).unwrap();
    informer.synced(SOON).await.unwrap();
    let subscription = informer.subscribe(Default::default());
    drop(informer);
    tokio::task::yield_now().await;
    assert!(!voices[1].is_closed(), "a subscriber keeps it running");
    drop(subscription);
    let voice = voices.remove(1);
    timeout(SOON, voice.closed())
        .await
        .expect("the watch is given up");
}

#[tokio::test(start_paused = true)]
async fn stopping_tells_what_waits_and_then_the_end() {
    let (informer, voice) = synced().await;
    let mut subscription = informer.subscribe(Default::default());
    voice.send(Input::Modified(object("a/y@6"))).unwrap();
    informer
        .store()
        .wait_for(&ResourceVersion::new("6"), SOON)
        .await
        .unwrap();
    informer.stop().await;
    assert!(voice.is_closed());
    assert_eq!(
        told(&mut subscription, 3).await,
        ["+a/x@1 Initial", "synced", "+a/y@6 Watch"]
    );
    assert!(subscription.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_no_backoff() {
    let unavailable = Status::service_unavailable("starting");
    let (source, _voices) = played(vec![unavailable.into()], 1);
    let informer = Informer::start(source, paged());
    let mut health = informer.watch_health();
    health.wait_for(|health| health.failing.is_some()).await.unwrap();
    let start = tokio::time::Instant::now();
    informer.stop().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_long_backlog_leaves_room_for_others() {
    let (source, voices) = played(vec![], 2);
    let informer = Informer::start(source, paged());
    for number in 0..1000 {
        voices[0]
            .send(Input::Item(object(&format!("a/x{number}@1"))))
            .unwrap();
    }
    voices[0].send(page_end("5")).unwrap();
    informer.synced(SOON).await.unwrap();
    let mut subscription = informer.subscribe(Default::default());
    let reader = tokio::spawn(async move { told(&mut subscription, 1001).await });
    let other = tokio::spawn(async {});
    other.await.unwrap();
    assert!(!reader.is_finished(), "the other had to wait for it");
    assert_eq!(reader.await.unwrap().last().unwrap(), "synced");
}

#[tokio::test(start_paused = true)]
async fn everybody_who_stops_it_waits_until_it_has_ended() {
    let (informer, voice) = synced().await;
    assert!(informer.stop().now_or_never().is_none(), "the first gives up");
    informer.stop().await;
    assert!(voice.is_closed());
    timeout(SOON, informer.stop()).await.expect("it has ended");
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_make_one_informer() {
    let ((one, first), (two, second)) = (played(vec![], 2), played(vec![], 2));
    let sources: Vec<(String, Arc<ObjectSource>)> = vec![("a".into(), one), ("b".into(), two)];
    let informer = Informer::start_in_namespaces(sources, paged());
    first[0].send(Input::Item(object("a/x@1"))).unwrap();
    first[0].send(page_end("5")).unwrap();
    assert!(informer.synced(Duration::from_millis(10)).await.is_err());
    second[0].send(Input::Item(object("b/y@2"))).unwrap();
    second[0].send(page_end("6")).unwrap();
    assert_eq!(informer.synced(SOON).await.unwrap().len(), 2);
}

#[derive(Clone, Default)]
struct Counting {
    added: Arc<AtomicUsize>,
    deleted: Arc<AtomicUsize>,
}

impl Handler for Counting {
    async fn added(&mut self, object: Object, _: Cause) {
        self.added.fetch_add(1, Ordering::SeqCst);
        assert_ne!(object.name(), "bad", "on purpose");
    }
    async fn deleted(&mut self, _: Object, _: bool) {
        self.deleted.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_told_the_next_change_all_the_same() {
    let (informer, voice) = synced().await;
    let handler = Counting::default();
    let registration = informer.handle(Default::default(), handler.clone());
    assert!(registration.synced().await);
    voice.send(Input::Modified(object("a/bad@6"))).unwrap();
    voice.send(Input::Deleted(object("a/bad@7"))).unwrap();
    informer
        .store()
        .wait_for(&ResourceVersion::new("7"), SOON)
        .await
        .unwrap();
    while handler.deleted.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        (registration.panics(), handler.added.load(Ordering::SeqCst)),
        (1, 2)
    );
    registration.stop().await;
    assert_eq!(informer.backlog(), Backlog::default(), "removed");
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_filter_panics_is_told_the_next_change_all_the_same() {
    let (informer, voice) = synced().await;
    let filter: Filter = Arc::new(|object| {
        assert_ne!(object.name(), "bad", "on purpose");
        true
    });
    let options = SubscribeOptions {
        filter: Some(filter),
        ..Default::default()
    };
    let handler = Counting::default();
    let registration = informer.handle(options, handler.clone());
    voice.send(Input::Modified(object("a/bad@6"))).unwrap();
    voice.send(Input::Modified(object("a/good@7"))).unwrap();
    while handler.added.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(registration.panics(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_relist_tells_each_subscriber_only_the_difference() {
    let (source, voices) = played(vec![], 3);
    let informer = Informer::start(source, paged());
    for text in ["a/gone@1", "a/other@2", "a/same@3"] {
        voices[0].send(Input::Item(object(text))).unwrap();
    }
    voices[0].send(page_end("5")).unwrap();
    let mut subscription = informer.subscribe(Default::default());
    told(&mut subscription, 4).await;
    voices[1]
        .send(Input::Failed(Status::watch_expired().into()))
        .unwrap();
    for text in ["a/new@8", "a/other@7", "a/same@3"] {
        voices[2].send(Input::Item(object(text))).unwrap();
    }
    voices[2].send(page_end("9")).unwrap();
    let expected = [
        "-a/gone@1? Relist",
        "+a/new@8 Relist",
        "a/other@2→a/other@7 Relist",
    ];
    assert_eq!(told(&mut subscription, 3).await, expected);
    assert!(
        subscription.next().now_or_never().is_none(),
        "nothing about the rest"
    );
}

/// An object of this key and version that cannot be decoded.
fn odd(key: &str, version: &str) -> Input<Object> {
    let object = Unread {
        key: ObjectKey::parse(key),
        version: ResourceVersion::new(version),
        position: 0,
    };
    let source = Arc::new(std::fmt::Error);
    Input::Undecodable(Failure::Undecodable { object, source })
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_keeps_its_last_state_and_is_named_until_it_can() {
    let (source, voices) = played(vec![], 4);
    let informer = Informer::start(source, paged());
    voices[0].send(Input::Item(object("a/odd@1"))).unwrap();
    voices[0].send(Input::Item(object("a/x@2"))).unwrap();
    voices[0].send(page_end("5")).unwrap();
    let mut subscription = informer.subscribe(Default::default());
    told(&mut subscription, 3).await;
    let failing = || informer.health().to_string();
    let complaint = "synced, failing because object a/odd cannot be read";

    voices[1].send(odd("a/odd", "6")).unwrap();
    voices[1].send(Input::Modified(object("a/x@7"))).unwrap();
    assert_eq!(told(&mut subscription, 1).await, ["a/x@2→a/x@7 Watch"]);
    assert!(failing().starts_with(complaint), "{}", failing());

    // A worse failure takes precedence; when it is over, the old one is still there.
    let restarting = Status::service_unavailable("restarting");
    voices[1].send(Input::Failed(restarting.into())).unwrap();
    let mut health = informer.watch_health();
    let says = |words: &'static str| move |health: &Health| health.to_string().contains(words);
    health.wait_for(says("restarting")).await.unwrap();
    health.wait_for(says("a/odd cannot be read")).await.unwrap();

    let lost = Status::watch_expired();
    voices[2].send(Input::Failed(lost.into())).unwrap();
    voices[3].send(odd("a/odd", "8")).unwrap();
    voices[3].send(page_end("9")).unwrap();
    assert_eq!(told(&mut subscription, 1).await, ["-a/x@7? Relist"]);
    assert_eq!(
        show(&informer.store().get_by_key("a/odd").unwrap().unwrap()),
        "a/odd@1"
    );
    assert!(failing().starts_with(complaint), "{}", failing());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_can_be_read_again_is_told_and_no_longer_named() {
    let (informer, voice) = synced().await;
    let mut subscription = informer.subscribe(Default::default());
    told(&mut subscription, 2).await;
    let mut health = informer.watch_health();
    voice.send(odd("a/x", "6")).unwrap();
    health.wait_for(|health| health.failing.is_some()).await.unwrap();
    voice.send(Input::Modified(object("a/x@7"))).unwrap();
    assert_eq!(told(&mut subscription, 1).await, ["a/x@1→a/x@7 Watch"]);
    health.wait_for(|health| health.failing.is_none()).await.unwrap();
}

/// Records messages and the fields that tests check.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                match field.name() {
                    "message" => self.0.insert_str(0, &format!("{value:?}")),
                    name => self.0.push_str(&format!(" {name}={value:?}")),
                }
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().push(text.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reflector_logs_as_client_go_at_the_same_levels() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    // With one subscriber in the process, tracing asks the thread that first reaches a call site whether it is
    // enabled, and caches the answer for all threads. That may be the thread of another test, which has none.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let (source, mut voices) = played(vec![], 3);
    let options = InformerOptions {
        resync: Some(Duration::from_secs(1)),
        ..paged()
    };
    let informer = Informer::start(source, options);
    voices[0].send(Input::Item(object("a/x@1"))).unwrap();
    voices[0].send(page_end("5")).unwrap();
    let mut subscription = informer.subscribe(Default::default());
    assert_eq!(told(&mut subscription, 3).await[2], "a/x@1→a/x@1 Resync");
    let watch = voices.remove(1);
    watch.send(Input::Modified(object("a/x@6"))).unwrap();
    watch.send(Input::Added(object("a/y@7"))).unwrap();
    drop(watch);
    told(&mut subscription, 4).await;
    let lines = lines.0.lock().clone();
    // The order of resyncs among the lines is random.
    let (resyncs, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.contains("resync"));
    assert!(!resyncs.is_empty());
    let expected = "Forcing resync v=4 resource=objects";
    assert!(resyncs.iter().all(|line| line == expected), "{resyncs:?}");
    assert_eq!(
        others,
        [
            "Starting reflector v=3 resource=objects",
            "Listing and watching v=3 resource=objects",
            "Watch close v=4 resource=objects totalItems=2",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_a_stream() {
    let (informer, voice) = synced().await;
    let subscription = informer.subscribe(Default::default());
    voice.send(Input::Modified(object("a/x@6"))).unwrap();
    drop(informer);
    let told: Vec<Notice> = timeout(SOON, subscription.take(3).collect()).await.unwrap();
    assert!(
        matches!(&told[..], [Notice::Change(_), Notice::Synced, Notice::Change(_)]),
        "{told:?}"
    );
}
