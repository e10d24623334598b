//! The shell around the machine, with scripted answers and tokio's clock moved by hand.

use futures_util::{FutureExt, stream};
use parking_lot::Mutex;
use tokio::time::Instant as Clock;
use watchkeeper_meta::{ListMeta, Status};

use super::*;

/// Answers requests in the order of its script and records their times.
struct Script {
    answers: Mutex<Vec<Line>>,
    asked: Mutex<Vec<(u128, &'static str)>>,
    start: Clock,
}

/// One answer: its inputs, or the failure to get one.
type Line = Result<Vec<Input<&'static str>>, Failure>;

impl Script {
    fn new(mut answers: Vec<Line>) -> Arc<Self> {
        answers.reverse();
        Arc::new(Self {
            answers: Mutex::new(answers),
            asked: Mutex::default(),
            start: Clock::now(),
        })
    }

    fn answer(&self, verb: &'static str) -> Opening<&'static str> {
        self.asked.lock().push((self.start.elapsed().as_millis(), verb));
        match self.answers.lock().pop() {
            // A finished script is silent, like a server without changes.
            None => std::future::pending().boxed(),
            Some(Err(failure)) => async { Err(failure) }.boxed(),
            Some(Ok(inputs)) => async { Ok(stream::iter(inputs).boxed()) }.boxed(),
        }
    }
}

impl Source for Script {
    type Object = &'static str;

    fn list(&self, _: ListRequest) -> Opening<&'static str> {
        self.answer("list")
    }

    fn watch(&self, _: WatchRequest) -> Opening<&'static str> {
        self.answer("watch")
    }
}

fn page(version: &str) -> Input<&'static str> {
    Input::PageEnd(ListMeta {
        resource_version: ResourceVersion::new(version),
        ..Default::default()
    })
}

#[tokio::test(start_paused = true)]
async fn events_arrive_and_a_watch_that_ended_is_opened_again() {
    let script = Script::new(vec![
        Ok(vec![Input::Item("a@1"), page("3")]),
        Ok(vec![Input::Modified("b@4")]),
        Ok(vec![Input::Deleted("a@5")]),
    ]);
    let mut watcher = Watcher::new(script.clone(), Config::paged());
    let mut events = Vec::new();
    while events.len() < 5 {
        events.push(watcher.next().await.unwrap().unwrap());
    }
    let listed = Event::InitDone(ResourceVersion::new("3"));
    let expected = [
        Event::Init,
        Event::InitApply("a@1"),
        listed,
        Event::Modified("b@4"),
        Event::Deleted("a@5"),
    ];
    assert_eq!(events, expected);
    assert_eq!(*script.asked.lock(), [(0, "list"), (0, "watch"), (0, "watch")]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_and_spaced_out() {
    let down = || Err(Failure::from(Status::service_unavailable("down")));
    let script = Script::new(vec![down(), down(), down(), Ok(vec![page("3")])]);
    let mut watcher = Watcher::new(script.clone(), Config::paged());
    for _ in 0..3 {
        assert!(watcher.next().await.unwrap().is_err());
    }
    assert_eq!(watcher.next().await.unwrap().unwrap(), Event::Init);
    let times: Vec<_> = script.asked.lock().iter().map(|(at, _)| *at).collect();
    for (wait, least) in times.windows(2).zip([800, 1600, 3200]) {
        let wait = wait[1] - wait[0];
        assert!((least..=2 * least + 2).contains(&wait), "{wait} after {least}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_open_again_tells_nothing_but_its_objects() {
    let first = Input::PageEnd(ListMeta {
        continue_token: "next".into(),
        ..Default::default()
    });
    let old = || Input::Modified("z@9");
    let gone = Failure::from(Status::path_not_found());
    let script = Script::new(vec![
        Ok(vec![page("8")]),
        Ok(vec![old(), Input::Failed(gone)]),
        Ok(vec![Input::Item("a@10"), first]),
        Err(Status::service_unavailable("down").into()),
        Ok(vec![Input::Item("b@11"), page("12")]),
    ]);
    let mut watcher = Watcher::new(script, Config::paged());
    let mut told = Vec::new();
    while told.last() != Some(&Event::InitDone(ResourceVersion::new("12"))) {
        told.extend(watcher.next().await.unwrap().ok());
    }
    let list = [Event::Init, Event::InitApply("a@10"), Event::InitApply("b@11")];
    assert_eq!(told[3..6], list);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up_and_asked_again() {
    let mut watcher = Watcher::new(Script::new(vec![]), Config::default());
    let start = Clock::now();
    assert!(matches!(watcher.next().await, Some(Err(Failure::Idle(_)))));
    assert!(start.elapsed() >= ANSWER_SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_request_ends_the_watcher() {
    let script = Script::new(vec![Err(Status::bad_request("unable to parse").into())]);
    let mut watcher = Watcher::new(script, Config::paged());
    assert!(watcher.next().await.unwrap().is_err());
    assert!(watcher.next().await.is_none());
    assert!(watcher.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_next_event_can_be_given_up_without_losing_one() {
    let answers = vec![
        Ok(vec![Input::Item("a@1"), page("3")]),
        Ok(vec![Input::Modified("b@4")]),
    ];
    let mut watcher = Watcher::new(Script::new(answers), Config::paged());
    let mut events = 0;
    while events < 4 {
        // Polled once and dropped, repeatedly.
        match watcher.next().now_or_never() {
            Some(event) => events += usize::from(event.unwrap().is_ok()),
            None => tokio::task::yield_now().await,
        }
    }
    assert_eq!(watcher.version().as_str(), "4");
}

#[tokio::test(start_paused = true)]
async fn pauses_end_even_if_every_poll_gives_up() {
    let script = Script::new(vec![
        Err(Status::service_unavailable("down").into()),
        Ok(vec![page("3")]),
    ]);
    let mut watcher = Watcher::new(script, Config::paged());
    assert!(watcher.next().await.unwrap().is_err());
    // Like a caller that polls several watchers: the future of each poll is dropped.
    let poll_once = poll_fn(|context| std::pin::pin!(watcher.next()).poll(context));
    let event = tokio::time::timeout(Duration::from_secs(60), poll_once)
        .await
        .expect("woken");
    assert_eq!(event.unwrap().unwrap(), Event::Init);
}

/// Has one watch.
struct OneWatch(Mutex<Option<Answer<&'static str>>>);

impl Source for OneWatch {
    type Object = &'static str;

    fn list(&self, _: ListRequest) -> Opening<&'static str> {
        unreachable!("the streaming list is complete")
    }

    fn watch(&self, _: WatchRequest) -> Opening<&'static str> {
        let answer = self.0.lock().take().expect("one watch");
        async { Ok(answer) }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_not_silent_while_nobody_listens() {
    let end = stream::once(async {
        // Not ready at the first poll, like anything that comes over a network.
        tokio::task::yield_now().await;
        Input::Bookmark {
            version: ResourceVersion::new("3"),
            ends_initial: true,
        }
    });
    let answer = stream::iter([Input::Modified("a@1")]).chain(end).boxed();
    let mut watcher = Watcher::new(Arc::new(OneWatch(Mutex::new(Some(answer)))), Config::default());
    assert_eq!(watcher.next().await.unwrap().unwrap(), Event::Init);
    assert_eq!(watcher.next().await.unwrap().unwrap(), Event::InitApply("a@1"));
    // The caller is slow with this event.
    tokio::time::advance(2 * STREAMING_SILENCE).await;
    let listed = Event::InitDone(ResourceVersion::new("3"));
    assert_eq!(watcher.next().await.unwrap().unwrap(), listed);
}
