//! The promises of a position, with a server of a few lines that keeps its whole history.

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use watchkeeper_meta::{ListMeta, Status};

use super::*;
use crate::store::tests::{object, show};
use crate::watcher::{Answer, Input, ListRequest, Opening, Source, WatchRequest};

/// A history of writes: a watch from a version shows the later ones, then is silent.
struct History {
    events: Mutex<Vec<(u64, Input<Object>)>>,
    /// Versions below this are forgotten.
    oldest: Mutex<u64>,
}

impl History {
    fn new(lines: &[&str]) -> Arc<Self> {
        let history = Self {
            events: Mutex::default(),
            oldest: Mutex::new(0),
        };
        lines.iter().for_each(|line| history.write(line));
        Arc::new(history)
    }

    /// `+key@version` writes, `-key@version` deletes.
    fn write(&self, line: &str) {
        let object = object(&line[1..]);
        let version = object.resource_version().parse().unwrap();
        let event = match line.starts_with('+') {
            true => Input::Applied(object),
            false => Input::Deleted(object),
        };
        self.events.lock().push((version, event));
    }

    fn answer(inputs: Vec<Input<Object>>) -> Opening<Object> {
        let answer: Answer<Object> = stream::iter(inputs).chain(stream::pending()).boxed();
        let opening: BoxFuture<'static, _> = async { Ok(answer) }.boxed();
        opening
    }
}

impl Source for History {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        let events = self.events.lock();
        let last = events.last().map_or(0, |(version, _)| *version);
        let alive = events.iter().filter_map(|(_, event)| match event {
            Input::Applied(object) => Some(Input::Item(object.clone())),
            _ => None,
        });
        let end = Input::PageEnd(ListMeta {
            resource_version: last.into(),
            ..Default::default()
        });
        Self::answer(alive.chain([end]).collect())
    }

    fn watch(&self, request: WatchRequest) -> Opening<Object> {
        let from: u64 = request.version.as_str().parse().unwrap();
        let oldest = *self.oldest.lock();
        if from < oldest {
            let expired = Status::too_old_resource_version(from, oldest);
            return Self::answer(vec![Input::Failed(expired.into())]);
        }
        let events = self.events.lock();
        let later = events.iter().filter(|(version, _)| *version > from);
        Self::answer(later.map(|(_, event)| event.clone()).collect())
    }
}

fn show_followed(followed: &Followed) -> String {
    let what = match &followed.what {
        Ok(Event::Apply(object)) => format!("+{}", show(object)),
        Ok(Event::InitApply(object)) => format!("={}", show(object)),
        Ok(Event::Delete(object)) => format!("-{}", show(object)),
        Ok(Event::Init) => "list".into(),
        Ok(Event::InitDone(version)) => format!("listed {version}"),
        Ok(Event::Progress(version)) => format!("at {version}"),
        Err(failure) => format!("! {failure}"),
    };
    format!("{}: {what}", followed.stream)
}

async fn take(follow: &mut Follow, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let followed = follow.next().await.unwrap().unwrap();
        seen.push(show_followed(&followed));
    }
    seen
}

/// Starts a program on this file that follows one source as `pods`.
fn program(path: &std::path::Path, source: &Arc<History>) -> Follow {
    let mut follow = Follow::with_position(PositionFile::open(path).unwrap());
    follow.add("pods", source.clone(), Config::paged());
    follow
}

#[tokio::test(start_paused = true)]
async fn a_restarted_program_sees_what_it_missed_deletes_included() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    let source = History::new(&["+a/x@1", "+a/y@2"]);
    let mut first = program(&path, &source);
    let seen = take(&mut first, 4).await;
    assert_eq!(
        seen,
        ["pods: list", "pods: =a/x@1", "pods: =a/y@2", "pods: listed 2"]
    );
    first.finish().unwrap();
    for line in ["-a/x@3", "+a/z@4"] {
        source.write(line);
    }
    let mut second = program(&path, &source);
    assert_eq!(take(&mut second, 2).await, ["pods: -a/x@3", "pods: +a/z@4"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_not_handled_comes_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    let source = History::new(&["+a/x@1"]);
    let mut first = program(&path, &source);
    take(&mut first, 3).await;
    first.finish().unwrap();
    source.write("+a/y@2");
    source.write("+a/z@3");
    let mut second = program(&path, &source);
    assert_eq!(take(&mut second, 2).await, ["pods: +a/y@2", "pods: +a/z@3"]);
    // The program dies here, in the middle of z; only y was handled. Time has passed, so y was written down.
    tokio::time::advance(SAVE_EVERY).await;
    second.handling = None;
    second.finish().unwrap();
    let mut third = program(&path, &source);
    assert_eq!(take(&mut third, 1).await, ["pods: +a/z@3"]);
}

#[tokio::test(start_paused = true)]
async fn half_a_list_is_not_a_position() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    let source = History::new(&["+a/x@1", "+a/y@2"]);
    let mut first = program(&path, &source);
    take(&mut first, 2).await;
    first.finish().unwrap();
    assert!(!path.exists());
}

#[tokio::test(start_paused = true)]
async fn a_position_too_old_is_told_and_everything_listed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    std::fs::write(&path, r#"{"pods": "1000"}"#).unwrap();
    let source = History::new(&["+a/x@1080817"]);
    *source.oldest.lock() = 1_080_816;
    let expected = [
        "pods: ! too old resource version: 1000 (1080816)",
        "pods: list",
        "pods: =a/x@1080817",
        "pods: listed 1080817",
    ];
    assert_eq!(take(&mut program(&path, &source), 4).await, expected);
}

#[tokio::test(start_paused = true)]
async fn several_streams_share_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("position");
    let (pods, services) = (History::new(&["+a/pod@1"]), History::new(&["+a/service@5"]));
    let start = || {
        let mut follow = program(&path, &pods);
        follow.add("services", services.clone(), Config::paged());
        follow
    };
    let mut first = start();
    take(&mut first, 6).await;
    first.finish().unwrap();
    pods.write("-a/pod@7");
    services.write("+a/other@8");
    let mut seen = take(&mut start(), 2).await;
    seen.sort();
    assert_eq!(seen, ["pods: -a/pod@7", "services: +a/other@8"]);
}
