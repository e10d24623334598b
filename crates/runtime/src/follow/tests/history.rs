//! A small server: a history of writes that can be listed, watched, cut and compacted.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::watch;
use watchkeeper_meta::{ListMeta, ResourceVersion, Status};
use watchkeeper_wire::Object;

use crate::store::tests::object;
use crate::watcher::{Failure, Input, ListRequest, Opening, Source, WatchRequest};

/// Uid and version by key.
pub(super) type State = BTreeMap<String, (String, u64)>;

/// A history of writes. A watch from a version shows the later ones, then waits for more.
pub(super) struct History {
    writes: Mutex<Vec<Write>>,
    /// Watches from versions below this have expired.
    oldest: Mutex<u64>,
    /// Counts writes and cuts; the number is that of the last cut.
    happened: watch::Sender<u64>,
    /// The number of requests still to be refused.
    refuse: Mutex<u32>,
}

#[derive(Clone)]
struct Write {
    version: u64,
    input: Input<Object>,
}

impl History {
    pub(super) fn new(lines: &[&str]) -> Arc<Self> {
        let history = Self {
            writes: Mutex::default(),
            oldest: Mutex::new(0),
            happened: watch::Sender::new(0),
            refuse: Mutex::new(0),
        };
        lines.iter().for_each(|line| history.write(line));
        Arc::new(history)
    }

    /// `+key@version#uid` adds, `~` modifies, `-` deletes.
    pub(super) fn write(&self, line: &str) {
        let object = object(&line[1..]);
        let version = object.resource_version().parse().unwrap();
        let input = match &line[..1] {
            "+" => Input::Added(object),
            "~" => Input::Modified(object),
            _ => Input::Deleted(object),
        };
        self.writes.lock().push(Write { version, input });
        self.happened.send_modify(|_| {});
    }

    /// Compacts everything before a version.
    pub(super) fn compact(&self, version: u64) {
        *self.oldest.lock() = version;
    }

    /// Ends every open watch.
    pub(super) fn cut(&self) {
        self.happened.send_modify(|cuts| *cuts += 1);
    }

    /// Refuses the next requests.
    pub(super) fn refuse(&self, requests: u32) {
        *self.refuse.lock() = requests;
    }

    pub(super) fn version(&self) -> u64 {
        self.writes.lock().last().map_or(0, |write| write.version)
    }

    /// The version of the first write after another one.
    pub(super) fn after(&self, version: u64) -> Option<u64> {
        let writes = self.writes.lock();
        writes
            .iter()
            .map(|write| write.version)
            .find(|later| *later > version)
    }

    /// The state at a version.
    pub(super) fn state_at(&self, version: u64) -> State {
        let objects = self.objects_at(version).into_iter();
        objects
            .map(|(key, object)| {
                let version = object.resource_version().parse().unwrap();
                (key, (object.uid().to_owned(), version))
            })
            .collect()
    }

    fn objects_at(&self, version: u64) -> BTreeMap<String, Object> {
        let mut objects = BTreeMap::new();
        for write in self.writes.lock().iter().filter(|write| write.version <= version) {
            match &write.input {
                Input::Added(object) | Input::Modified(object) => {
                    objects.insert(object.key().to_string(), object.clone());
                }
                Input::Deleted(object) => {
                    objects.remove(object.key().as_str());
                }
                _ => unreachable!("only these are written"),
            }
        }
        objects
    }

    fn refused(&self) -> Option<Opening<Object>> {
        let mut refuse = self.refuse.lock();
        *refuse = refuse.checked_sub(1)?;
        let failure: Failure = Status::internal_error("boom").into();
        Some(async { Err(failure) }.boxed())
    }

    /// The writes after a version, until the next cut.
    fn live(self: Arc<Self>, from: u64) -> stream::BoxStream<'static, Input<Object>> {
        let happened = self.happened.subscribe();
        let cuts = *happened.borrow();
        stream::unfold(Some((self, happened, from)), move |state| async move {
            let (history, mut happened, from) = state?;
            loop {
                if *happened.borrow_and_update() != cuts {
                    let cut: Box<dyn std::error::Error + Send + Sync> = "cut".into();
                    return Some((Input::Failed(Failure::Connection(cut.into())), None));
                }
                let next = history
                    .writes
                    .lock()
                    .iter()
                    .find(|write| write.version > from)
                    .cloned();
                if let Some(write) = next {
                    return Some((write.input, Some((history, happened, write.version))));
                }
                happened.changed().await.ok()?;
            }
        })
        .boxed()
    }
}

impl Source for Arc<History> {
    type Object = Object;

    fn list(&self, _: ListRequest) -> Opening<Object> {
        if let Some(refused) = self.refused() {
            return refused;
        }
        let version = self.version();
        let items = self.objects_at(version).into_values().map(Input::Item);
        let end = Input::PageEnd(ListMeta {
            resource_version: version.into(),
            ..Default::default()
        });
        let answer = stream::iter(items.chain([end]).collect::<Vec<_>>()).boxed();
        async { Ok(answer) }.boxed()
    }

    fn watch(&self, request: WatchRequest) -> Opening<Object> {
        if let Some(refused) = self.refused() {
            return refused;
        }
        if request.initial_events {
            let version = self.version();
            let initial = self.objects_at(version).into_values().map(Input::Added);
            let end = Input::Bookmark {
                version: ResourceVersion::from(version),
                ends_initial: true,
            };
            let initial = stream::iter(initial.chain([end]).collect::<Vec<_>>());
            let answer = initial.chain(self.clone().live(version)).boxed();
            return async { Ok(answer) }.boxed();
        }
        let from: u64 = request.version.as_str().parse().unwrap();
        let oldest = *self.oldest.lock();
        let answer = match from < oldest {
            true => {
                let expired = Status::too_old_resource_version(from, oldest);
                stream::iter([Input::Failed(expired.into())]).boxed()
            }
            false => self.clone().live(from),
        };
        async { Ok(answer) }.boxed()
    }
}
