//! Writes config maps that reveal torn writes, and records their watches in a [`History`].

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::Client;
use crate::lines::{End, Lines};
use watchkeeper_conformance::promises::{Event, History, Kind, Seen, Selection, Session, Start, State};

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Enough to reveal a torn write.
const REPETITIONS: usize = 200;

/// A config map with a state; with a version, the update is conditional.
pub(crate) fn config_map(name: &str, state: &State, version: Option<u64>) -> String {
    let mut metadata = json!({"name": name, "labels": {"colour": state.colour}});
    if let Some(version) = version {
        metadata["resourceVersion"] = version.to_string().into();
    }
    let number = state.number.to_string();
    let whole = format!("{number} ").repeat(REPETITIONS);
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {"number": number, "whole": whole},
    })
    .to_string()
}

/// The state of a config map, which must be complete and one that was written.
pub(crate) fn state(object: &Value) -> State {
    let number = object["data"]["number"].as_str().unwrap();
    let whole = format!("{number} ").repeat(REPETITIONS);
    assert_eq!(object["data"]["whole"], whole, "half an object");
    State {
        colour: object["metadata"]["labels"]["colour"]
            .as_str()
            .unwrap()
            .to_owned(),
        number: number.parse().unwrap(),
    }
}

pub(crate) fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    version.parse().unwrap()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// True for objects of the test; default objects are ignored.
fn is_ours(object: &Value) -> bool {
    object["data"]["number"].is_string()
}

/// The version and objects of a list.
pub(crate) fn snapshot(list: &Value) -> (u64, BTreeMap<String, State>) {
    let items = list["items"].as_array().unwrap().iter();
    let objects = items
        .filter(|item| is_ours(item))
        .map(|item| (name(item), state(item)));
    (version(list), objects.collect())
}

/// A watcher that resumes, or takes a snapshot if it cannot.
pub(crate) struct Observer {
    pub(crate) history: History,
    pub(crate) stream: Option<Lines>,
}

/// The result of reading one line.
#[derive(Debug, PartialEq)]
pub(crate) enum Read {
    Something,
    Nothing,
}

impl Observer {
    pub(crate) fn new(selection: Selection) -> Self {
        let history = History {
            selection,
            ..History::default()
        };
        Self {
            history,
            stream: None,
        }
    }

    /// The version up to which everything was seen.
    pub(crate) fn position(&self) -> u64 {
        self.history.sessions.last().map_or(0, Session::position)
    }

    pub(crate) fn selector(&self) -> String {
        let Selection { colour, name } = &self.history.selection;
        let label = colour
            .as_ref()
            .map(|colour| format!("&labelSelector=colour%3D{colour}"));
        let field = name
            .as_ref()
            .map(|name| format!("&fieldSelector=metadata.name%3D{name}"));
        label.unwrap_or_default() + &field.unwrap_or_default()
    }

    /// True if there is a version to resume from.
    pub(crate) fn can_resume(&self) -> bool {
        self.history
            .sessions
            .last()
            .is_some_and(|session| !session.expired())
    }

    /// Resumes after the last version seen.
    pub(crate) async fn resume(&mut self, client: &mut Client) -> hyper::Result<()> {
        let position = self.position();
        self.watch_after(client, position).await?;
        self.begin(Start::Resumed(position));
        Ok(())
    }

    /// Starts again with a list.
    pub(crate) async fn list(&mut self, client: &mut Client) -> hyper::Result<()> {
        let path = format!("{CONFIG_MAPS}?limit=1000{}", self.selector());
        let list = client.try_send(::http::Method::GET, &path, &[], "").await?;
        assert_eq!(list.status, 200, "{}", list.text());
        let (version, objects) = snapshot(&list.json());
        self.begin(Start::Snapshot { version, objects });
        self.watch_after(client, version).await
    }

    /// Starts again with the initial events of a watch, up to their final bookmark.
    pub(crate) async fn stream_list(&mut self, client: &mut Client) -> Result<(), End> {
        let initial =
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let path = format!("{CONFIG_MAPS}?{initial}{}", self.selector());
        let mut lines = Lines::open(client, &path).await;
        let mut objects = BTreeMap::new();
        loop {
            let event = lines.next().await?;
            let object = &event["object"];
            if event["type"] == "BOOKMARK" {
                let end = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
                assert_eq!(end, "true", "a bookmark among the initial events");
                let version = version(object);
                self.begin(Start::Snapshot { version, objects });
                self.stream = Some(lines);
                return Ok(());
            }
            assert_eq!(event["type"], "ADDED");
            if is_ours(object) {
                let before = objects.insert(name(object), state(object));
                assert!(before.is_none(), "an object came twice among the initial events");
            }
        }
    }

    async fn watch_after(&mut self, client: &mut Client, version: u64) -> hyper::Result<()> {
        let selector = self.selector();
        let path =
            format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={version}{selector}");
        self.stream = Some(Lines::try_open(client, &path).await?);
        Ok(())
    }

    fn begin(&mut self, start: Start) {
        let seen = Vec::new();
        self.history.sessions.push(Session { start, seen });
    }

    /// Reads one line of the open stream. `compacted` returns the compacted revision, for the check of a 410.
    pub(crate) async fn read(&mut self, compacted: impl FnOnce() -> u64) -> Read {
        let Some(stream) = &mut self.stream else {
            return Read::Nothing;
        };
        let Ok(event) = stream.next().await else {
            self.stream = None;
            return Read::Nothing;
        };
        let object = &event["object"];
        let kind = match event["type"].as_str().unwrap() {
            "ADDED" => Kind::Added,
            "MODIFIED" => Kind::Modified,
            "DELETED" => Kind::Deleted,
            "BOOKMARK" => {
                self.push(Seen::Bookmark(version(object)));
                return Read::Something;
            }
            _ => {
                assert_eq!(object["code"], 410, "{event}");
                self.push(Seen::Expired {
                    compacted: compacted(),
                });
                self.stream = None;
                return Read::Something;
            }
        };
        if is_ours(object) {
            let (version, name, state) = (version(object), name(object), state(object));
            self.push(Seen::Event(Event {
                version,
                kind,
                name,
                state,
            }));
        }
        Read::Something
    }

    fn push(&mut self, seen: Seen) {
        let session = self.history.sessions.last_mut().expect("a stream that has begun");
        session.seen.push(seen);
    }
}
