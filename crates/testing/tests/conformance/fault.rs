//! The faults of a proxy, one at a time.

use std::fmt;

use serde_json::Value;

/// One way to violate a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Passes everything on.
    Nothing,
    /// Ends every watch after some events, which is allowed.
    CutsWatches,
    DropsEvents,
    RepeatsEvents,
    SwapsEvents,
    /// Watches stay open and silent.
    Stalls,
    /// New objects are reported as modified.
    WrongType,
    /// Watches from a version start now.
    ResumesLate,
    /// Every watch from a version gets 410.
    AlwaysGone,
    IgnoresLabelSelectors,
    IgnoresFieldSelectors,
    /// Objects that leave a selection are reported as modified.
    LeavingIsModified,
    ForgetsBookmarks,
    BookmarksAhead,
    BookmarksBehind,
    /// The bookmark after the initial events lacks its annotation.
    NoEndOfInitialEvents,
    LosesAnInitialEvent,
    /// A watch from now on instead of 410.
    FreshStreamForGone,
    /// Changes objects on their way to the server.
    TouchesWhatItWrites,
    /// Most recent lists are old.
    OldLists,
    /// Lists at any version have old objects and the current version.
    MixedLists,
    /// Lists that must not be older than a version are.
    OlderThanAsked,
    /// Lists at an exact version are current.
    IgnoresExact,
    /// Lists at a future version are current.
    AnswersFuture,
    /// Every page is the first one.
    IgnoresContinue,
    /// Later pages are cut out of a current list.
    PagesOfNow,
}

/// A query with its raw values.
#[derive(Clone, Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        };
        Self(pairs.map(pair).collect())
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(given, _)| given != name);
    }

    fn set(&mut self, name: &str, value: String) {
        self.remove(name);
        self.0.push((name.to_owned(), value));
    }

    fn is_future(&self) -> bool {
        self.get("resourceVersion").len() > 9
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        f.write_str(&pairs.join("&"))
    }
}

impl Fault {
    /// The query sent to the server instead.
    pub(crate) fn spoil_watch(self, query: &mut Query, now: String) {
        match self {
            Self::ResumesLate if query.has("resourceVersion") => query.set("resourceVersion", now),
            Self::IgnoresLabelSelectors => query.remove("labelSelector"),
            Self::IgnoresFieldSelectors => query.remove("fieldSelector"),
            _ => {}
        }
    }

    /// The query sent to the server instead.
    pub(crate) fn spoil_list(self, query: &mut Query) {
        match self {
            Self::IgnoresLabelSelectors => query.remove("labelSelector"),
            Self::IgnoresFieldSelectors => query.remove("fieldSelector"),
            Self::IgnoresExact if query.get("resourceVersionMatch") == "Exact" => {
                query.remove("resourceVersion");
                query.remove("resourceVersionMatch");
            }
            Self::AnswersFuture if query.is_future() => {
                query.remove("resourceVersion");
                query.remove("resourceVersionMatch");
            }
            Self::IgnoresContinue => query.remove("continue"),
            Self::PagesOfNow if query.has("continue") => {
                query.remove("continue");
                query.remove("limit");
            }
            _ => {}
        }
    }

    /// The answer sent to the client instead, if necessary the first list that passed.
    pub(crate) fn spoil_listed(self, asked: &Query, list: &mut Value, first: &Value) {
        let version = list["metadata"]["resourceVersion"].take();
        list["metadata"]["resourceVersion"] = version.clone();
        match self {
            Self::OldLists if !asked.has("resourceVersion") && !asked.has("limit") => *list = first.clone(),
            Self::MixedLists if asked.get("resourceVersion") == "0" => {
                *list = first.clone();
                list["metadata"]["resourceVersion"] = version;
            }
            Self::OlderThanAsked if asked.get("resourceVersionMatch") == "NotOlderThan" => {
                *list = first.clone()
            }
            Self::PagesOfNow if asked.has("continue") => {
                // The first page has the first three; the rest is sent at once, with the version of that page.
                list["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"].clone();
                list["items"].as_array_mut().unwrap().drain(..3);
            }
            _ => {}
        }
    }
}

/// The events of one stream.
pub(crate) struct Events {
    fault: Fault,
    query: Query,
    /// The number of changes so far.
    count: usize,
    held: Option<Value>,
}

impl Events {
    pub(crate) fn new(fault: Fault, query: Query) -> Self {
        Self {
            fault,
            query,
            count: 0,
            held: None,
        }
    }

    /// The events sent instead; `None` ends the stream. `passed` is the number of changes on all streams.
    pub(crate) fn spoil(&mut self, mut event: Value, passed: usize) -> Option<Vec<Value>> {
        if event["type"] == "BOOKMARK" {
            return Some(self.spoil_bookmark(event));
        }
        self.count += 1;
        let is_initial = self.query.has("sendInitialEvents");
        let is_selected = self.query.has("labelSelector") || self.query.has("fieldSelector");
        match self.fault {
            Fault::CutsWatches if self.count > 6 => return None,
            Fault::Stalls => return Some(Vec::new()),
            Fault::DropsEvents if passed.is_multiple_of(7) => return Some(Vec::new()),
            Fault::RepeatsEvents if passed.is_multiple_of(7) => return Some(vec![event.clone(), event]),
            Fault::SwapsEvents => match self.held.take() {
                Some(held) => return Some(vec![event, held]),
                None => {
                    self.held = Some(event);
                    return Some(Vec::new());
                }
            },
            Fault::WrongType if !is_selected && !is_initial && event["type"] == "ADDED" => {
                event["type"] = "MODIFIED".into();
            }
            Fault::LeavingIsModified if self.query.has("labelSelector") && event["type"] == "DELETED" => {
                event["type"] = "MODIFIED".into();
            }
            Fault::LosesAnInitialEvent if is_initial && self.count == 1 => return Some(Vec::new()),
            Fault::AlwaysGone if self.query.has("resourceVersion") => {
                let status = serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                    "message": "too old resource version",
                });
                return Some(vec![serde_json::json!({"type": "ERROR", "object": status})]);
            }
            _ => {}
        }
        Some(vec![event])
    }

    /// The event held back, if no other one follows.
    pub(crate) fn release(&mut self) -> Option<Value> {
        self.held.take()
    }

    fn spoil_bookmark(&self, mut bookmark: Value) -> Vec<Value> {
        let metadata = &mut bookmark["object"]["metadata"];
        let ends_initial_events = metadata["annotations"].is_object();
        let version: u64 = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
        match self.fault {
            Fault::Stalls => return Vec::new(),
            Fault::NoEndOfInitialEvents => metadata["annotations"] = Value::Null,
            Fault::ForgetsBookmarks if !ends_initial_events => return Vec::new(),
            Fault::BookmarksAhead if !ends_initial_events => {
                metadata["resourceVersion"] = (version + 100).to_string().into();
            }
            Fault::BookmarksBehind if !ends_initial_events => metadata["resourceVersion"] = "2".into(),
            _ => {}
        }
        vec![bookmark]
    }
}
