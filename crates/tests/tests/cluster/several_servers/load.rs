//! Writers that retry, and watchers that record what they see.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::sync::watch;
use watchkeeper_client::{DynamicApi, WatchEvent, WatchStream};
use watchkeeper_conformance::promises::{
    Change, Event, History, Kind, Seen, Selection, Session, Start, State,
};
use watchkeeper_meta::{LabelSelector, ListOptions, ResourceVersion, WatchOptions};

/// The number of names of each writer.
const NAMES: usize = 4;
const SENTINEL: &str = "sentinel";
/// The pause between two attempts while servers are down.
const PAUSE: Duration = Duration::from_millis(50);

/// The progress of the writers, and the target of the watchers.
#[derive(Debug)]
pub(super) struct Acknowledged {
    count: watch::Sender<u64>,
    is_stopped: watch::Sender<bool>,
    end: watch::Sender<Option<u64>>,
}

impl Default for Acknowledged {
    fn default() -> Self {
        Self {
            count: watch::Sender::new(0),
            is_stopped: watch::Sender::new(false),
            end: watch::Sender::new(None),
        }
    }
}

impl Acknowledged {
    /// Waits for that many further writes.
    pub(super) async fn more(&self, writes: u64) {
        let mut count = self.count.subscribe();
        let goal = *count.borrow() + writes;
        count.wait_for(|count| *count >= goal).await.unwrap();
    }

    pub(super) fn stop(&self) {
        self.is_stopped.send_replace(true);
    }

    /// Sets the version at which the watchers have seen everything.
    pub(super) fn end_at(&self, version: u64) {
        self.end.send_replace(Some(version));
    }
}

/// A write, as its writer knows it.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) name: String,
    /// The written or deleted value.
    pub(super) number: u64,
    /// The version in the answer; `None` for a deletion.
    pub(super) version: Option<u64>,
    /// True if a server answered; otherwise it was found to have happened, or did not happen.
    pub(super) is_acknowledged: bool,
}

/// Writes one value after another to its own names.
pub(super) struct Writer {
    id: usize,
    api: DynamicApi,
    acknowledged: Arc<Acknowledged>,
    random: Rng,
    live: BTreeMap<String, u64>,
    writes: Vec<Write>,
    count: u64,
}

impl Writer {
    pub(super) fn new(id: usize, api: DynamicApi, acknowledged: Arc<Acknowledged>) -> Self {
        Self {
            id,
            api,
            acknowledged,
            random: Rng::with_seed(id as u64),
            live: BTreeMap::new(),
            writes: Vec::new(),
            count: 0,
        }
    }

    /// Writes until stopped.
    pub(super) async fn run(mut self) -> Vec<Write> {
        while !*self.acknowledged.is_stopped.borrow() {
            let name = format!("w{}-{}", self.id, self.random.usize(..NAMES));
            match self.live.get(&name).copied() {
                Some(number) if self.random.u32(..4) == 0 => self.delete(name, number).await,
                _ => self.put(name).await,
            }
        }
        self.writes
    }

    /// Retries until the object has the value. After an error the outcome is unknown, so it reads the object.
    async fn put(&mut self, name: String) {
        self.count += 1;
        let number = self.id as u64 * 1_000_000 + self.count;
        let colour = *self.random.choice(["red", "blue"].iter()).unwrap();
        let body = body(&name, colour, number);
        loop {
            let answer = match self.live.contains_key(&name) {
                true => self.api.update(&name, &body).await,
                false => self.api.create(&body).await,
            };
            if let Ok(object) = answer {
                let version = object.resource_version().parse().unwrap();
                self.note(&name, number, Some(version), true);
                break;
            }
            let found = self.find(&name).await;
            match found {
                Some(found) => drop(self.live.insert(name.clone(), found)),
                None => drop(self.live.remove(&name)),
            }
            if found == Some(number) {
                self.note(&name, number, None, false);
                break;
            }
        }
        self.live.insert(name, number);
    }

    async fn delete(&mut self, name: String, number: u64) {
        loop {
            let is_acknowledged = self.api.delete(&name).await.is_ok();
            if is_acknowledged || self.find(&name).await.is_none() {
                self.note(&name, number, None, is_acknowledged);
                break;
            }
        }
        self.live.remove(&name);
    }

    /// The value of an object, from any server that answers.
    async fn find(&self, name: &str) -> Option<u64> {
        loop {
            match self.api.get(name).await {
                Ok(object) => return Some(state(&object.to_value().unwrap()).number),
                Err(error) if error.is_not_found() => return None,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn note(&mut self, name: &str, number: u64, version: Option<u64>, is_acknowledged: bool) {
        self.writes.push(Write {
            name: name.to_owned(),
            number,
            version,
            is_acknowledged,
        });
        self.acknowledged
            .count
            .send_modify(|count| *count += u64::from(is_acknowledged));
    }
}

fn body(name: &str, colour: &str, number: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"colour": colour}},
        "data": {"number": number.to_string()},
    })
}

fn state(object: &Value) -> State {
    State {
        colour: object["metadata"]["labels"]["colour"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        number: object["data"]["number"]
            .as_str()
            .unwrap_or_default()
            .parse()
            .unwrap_or_default(),
    }
}

/// The current version of a list.
pub(super) async fn newest(api: &DynamicApi) -> u64 {
    api.list()
        .await
        .unwrap()
        .head
        .resource_version
        .as_str()
        .parse()
        .unwrap()
}

/// The write that every watcher sees last.
pub(super) async fn write_sentinel(api: &DynamicApi) -> u64 {
    let written = api.create(&body(SENTINEL, "red", 0)).await.unwrap();
    written.resource_version().parse().unwrap()
}

/// Watches through all failures and records the events.
pub(super) struct Recorder {
    api: DynamicApi,
    history: History,
}

impl Recorder {
    pub(super) fn new(colour: Option<&str>, api: DynamicApi) -> Self {
        let selection = Selection {
            colour: colour.map(str::to_owned),
            name: None,
        };
        let history = History {
            selection,
            ..History::default()
        };
        Self { api, history }
    }

    /// Watches until the end.
    pub(super) async fn run(mut self, acknowledged: Arc<Acknowledged>) -> History {
        let mut end = acknowledged.end.subscribe();
        let mut stream = None;
        loop {
            let reached = *end.borrow();
            let position = self.position();
            if reached.is_some_and(|end| position >= end) {
                self.history.caught_up = position;
                return self.history;
            }
            match &mut stream {
                None => stream = self.connect().await,
                Some(open) => tokio::select! {
                    event = next(open) => match event {
                        Some(event) => if !self.take(event) { stream = None },
                        None => stream = None,
                    },
                    _ = end.changed() => {}
                },
            }
        }
    }

    fn position(&self) -> u64 {
        self.history.sessions.last().map_or(0, Session::position)
    }

    /// Resumes, or lists if that is not possible; `None` if no server can be reached.
    async fn connect(&mut self) -> Option<WatchStream> {
        let can_resume = self
            .history
            .sessions
            .last()
            .is_some_and(|session| !session.expired());
        let labels = match &self.history.selection.colour {
            Some(colour) => LabelSelector::from_labels([("colour", colour.as_str())]).unwrap(),
            None => LabelSelector::default(),
        };
        let start = match can_resume {
            true => Start::Resumed(self.position()),
            false => {
                let options = ListOptions {
                    label_selector: labels.clone(),
                    ..ListOptions::default()
                };
                let Ok(list) = self.api.list().with(&options).await else {
                    tokio::time::sleep(PAUSE).await;
                    return None;
                };
                let items = list.items.iter().map(|item| item.to_value().unwrap());
                Start::Snapshot {
                    version: list.head.resource_version.as_str().parse().unwrap(),
                    objects: items
                        .filter(is_ours)
                        .map(|item| (name(&item), state(&item)))
                        .collect(),
                }
            }
        };
        self.history.sessions.push(Session {
            start,
            seen: Vec::new(),
        });
        match watch_after(&self.api, labels, self.position()).await {
            Ok(stream) => Some(stream),
            Err(error) => {
                if error.is_expired() {
                    self.push(Seen::Expired { compacted: u64::MAX });
                }
                tokio::time::sleep(PAUSE).await;
                None
            }
        }
    }

    /// Returns false if the stream has ended.
    fn take(&mut self, event: WatchEvent) -> bool {
        match read(event) {
            Some(seen) => {
                let goes_on = !matches!(seen, Seen::Expired { .. });
                self.push(seen);
                goes_on
            }
            None => true,
        }
    }

    fn push(&mut self, seen: Seen) {
        self.history.sessions.last_mut().unwrap().seen.push(seen);
    }
}

async fn watch_after(
    api: &DynamicApi,
    labels: LabelSelector,
    version: u64,
) -> Result<WatchStream, watchkeeper_client::Error> {
    let options = WatchOptions {
        resource_version: ResourceVersion::new(version.to_string()),
        label_selector: labels,
        allow_bookmarks: true,
        ..WatchOptions::default()
    };
    api.watch().with(&options).await
}

/// The next event; `None` at the end of a stream, for whatever reason.
async fn next(stream: &mut WatchStream) -> Option<WatchEvent> {
    stream.next().await?.ok()
}

/// True for objects of this test; the others are defaults of the namespace.
fn is_ours(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    name.starts_with('w') || name == SENTINEL
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn read(event: WatchEvent) -> Option<Seen> {
    let (kind, object) = match event {
        WatchEvent::Added(object) => (Kind::Added, object),
        WatchEvent::Modified(object) => (Kind::Modified, object),
        WatchEvent::Deleted(object) => (Kind::Deleted, object),
        WatchEvent::Bookmark(object) => {
            return Some(Seen::Bookmark(object.resource_version().parse().unwrap()));
        }
        WatchEvent::Error(status) if status.is_expired() => {
            return Some(Seen::Expired { compacted: u64::MAX });
        }
        other => panic!("a watch says {other:?}"),
    };
    let value = object.to_value().unwrap();
    is_ours(&value).then(|| {
        Seen::Event(Event {
            version: object.resource_version().parse().unwrap(),
            kind,
            name: name(&value),
            state: state(&value),
        })
    })
}

/// Every event between two versions, from one server.
pub(super) async fn events_after(api: &DynamicApi, after: u64, end: u64) -> Vec<Event> {
    let mut stream = watch_after(api, LabelSelector::default(), after).await.unwrap();
    let mut events: Vec<Event> = Vec::new();
    while events.last().is_none_or(|last| last.version < end) {
        match next(&mut stream).await.and_then(read) {
            Some(Seen::Event(event)) => events.push(event),
            Some(Seen::Bookmark(_)) | None => {}
            Some(Seen::Expired { .. }) => pending().await,
        }
    }
    events
}

/// The changes behind the events.
pub(super) fn changes(events: Vec<Event>) -> Vec<Change> {
    let mut live = BTreeMap::new();
    let changes = events.into_iter().map(|event| {
        let after = (event.kind != Kind::Deleted).then(|| event.state.clone());
        let before = match &after {
            Some(state) => live.insert(event.name.clone(), state.clone()),
            None => live.remove(&event.name),
        };
        Change {
            version: event.version,
            name: event.name,
            before,
            after,
        }
    });
    changes.collect()
}
