//! The objects of one check, which nobody else writes, and the record of their changes.
//!
//! Each write is recorded as a [`Change`]. The answer to a delete has no version, so the version of a delete is only
//! known to lie between the writes before and after it, until a watcher sees the event:
//!
//! ```text
//! update a ▶ 7     delete a ▶ ?     update b ▶ 12      the deletion is at 8, 9, 10 or 11: taken to be at 11
//! DELETED a at 9                                       the deletion is at 9
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use watchkeeper_client::{Client, DynamicApi, Error};
use watchkeeper_meta::{FieldSelector, LabelSelector, ListOptions, Resource, ResourceVersion};

use crate::promises::{Change, History, Kind, Seen, Selection, State, objects_at, same};

/// Marks the objects of one check.
const RUN_LABEL: &str = "watchkeeper.dev/conformance";
/// The label that selectors use.
const COLOUR_LABEL: &str = "watchkeeper.dev/colour";

/// Large enough that a truncated object would show.
const REPETITIONS: usize = 50;

/// The reason a check ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The guarantee is violated; the text describes the observation.
    Broken(String),
    /// The guarantee cannot be checked, with the reason.
    Skipped(String),
}

/// The objects of one check.
pub(crate) struct Objects {
    pub(crate) api: DynamicApi,
    kind: Resource,
    run: String,
    truth: Vec<Change>,
    live: BTreeMap<String, Live>,
    /// Deletes of unknown version, by their index in the record: after the first and before the second version.
    unsettled: BTreeMap<usize, (u64, u64)>,
    /// Every name ever written, so that nothing is left behind whatever the answers say.
    written: BTreeSet<String>,
    count: u64,
}

/// The current state of an object.
#[derive(Clone)]
struct Live {
    state: State,
    version: u64,
}

/// The part of a list that is about our objects.
pub(crate) struct Listed {
    pub(crate) version: u64,
    pub(crate) objects: BTreeMap<String, State>,
    pub(crate) continue_token: String,
    /// An error in the list itself.
    wrong: Option<String>,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<String> for Stop {
    fn from(seen: String) -> Self {
        Self::Broken(seen)
    }
}

impl Objects {
    /// Without objects, in this namespace.
    pub(crate) fn new(client: &Client, namespace: &str, kind: &Resource) -> Self {
        // JSON is supported by every server and proxy.
        let api = client.dynamic(kind.clone()).namespace(namespace).json_only();
        Self {
            api,
            kind: kind.clone(),
            // Not from the seed: two runs in one namespace must not collide.
            run: format!("conformance-{:08x}", fastrand::u32(..)),
            truth: Vec::new(),
            live: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            written: BTreeSet::new(),
            count: 0,
        }
    }

    /// Every change so far, in order.
    pub(crate) fn truth(&self) -> &[Change] {
        &self.truth
    }

    /// The version of the last write.
    pub(crate) fn newest(&self) -> u64 {
        self.truth.last().map_or(0, |change| change.version)
    }

    pub(crate) fn is_live(&self, name: &str) -> bool {
        self.live.contains_key(name)
    }

    /// Creates the object, or changes its content.
    pub(crate) async fn write(&mut self, name: &str, colour: &str) -> Result<u64, Stop> {
        self.count += 1;
        let after = State {
            colour: colour.to_owned(),
            number: self.count,
        };
        let before = self.live.get(name).cloned();
        let full_name = self.full_name(name);
        let body = self.body(name, &after, before.as_ref().map(|live| live.version));
        self.written.insert(full_name.clone());
        let answer = match before {
            None => self.api.create(&body).await?,
            Some(_) => self.api.update(&full_name, &body).await?,
        };
        let version = number(answer.resource_version())?;
        if version <= self.newest() {
            return Err(Stop::Broken(format!(
                "a write was answered with version {version}, after one with {}",
                self.newest()
            )));
        }
        self.bound_deletion(version);
        let live = Live {
            state: after.clone(),
            version,
        };
        self.live.insert(name.to_owned(), live);
        self.truth.push(Change {
            version,
            name: name.to_owned(),
            before: before.map(|live| live.state),
            after: Some(after),
        });
        Ok(version)
    }

    /// Deletes the object. A write must follow, which bounds the version of the delete.
    pub(crate) async fn delete(&mut self, name: &str) -> Result<(), Stop> {
        let after = self.newest();
        self.api.delete(&self.full_name(name)).await?;
        let before = self.live.remove(name).map(|live| live.state);
        self.unsettled.insert(self.truth.len(), (after, u64::MAX));
        self.truth.push(Change {
            version: after + 1,
            name: name.to_owned(),
            before,
            after: None,
        });
        Ok(())
    }

    /// Writes the current content; returns the version before and the one answered.
    pub(crate) async fn write_nothing_new(&mut self, name: &str) -> Result<(u64, u64), Stop> {
        let live = self.live.get(name).cloned();
        let live = live.ok_or_else(|| Stop::Skipped(format!("{name} is gone")))?;
        let body = self.body(name, &live.state, Some(live.version));
        let answer = self.api.update(&self.full_name(name), &body).await?;
        Ok((live.version, number(answer.resource_version())?))
    }

    fn bound_deletion(&mut self, version: u64) {
        let Some(index) = self.truth.len().checked_sub(1) else {
            return;
        };
        if let Some((_, before)) = self.unsettled.get_mut(&index) {
            *before = version;
            self.truth[index].version = version - 1;
        }
    }

    /// Determines the versions of deletes from the watchers' events, as far as possible.
    pub(crate) fn settle<'h>(&mut self, histories: impl IntoIterator<Item = &'h History>) {
        let sessions = histories.into_iter().flat_map(|history| &history.sessions);
        for seen in sessions.flat_map(|session| &session.seen) {
            let Seen::Event(event) = seen else { continue };
            if event.kind != Kind::Deleted {
                continue;
            }
            let told = |(index, (after, before)): &(&usize, &(u64, u64))| {
                self.truth[**index].name == event.name && (*after + 1..*before).contains(&event.version)
            };
            let found = self.unsettled.iter().find(told).map(|(index, _)| *index);
            if let Some(index) = found {
                self.unsettled.remove(&index);
                self.truth[index].version = event.version;
            }
        }
    }

    /// The version a watcher of this selection has to reach to have seen everything.
    pub(crate) fn awaited(&self, selection: &Selection) -> u64 {
        let mut changes = self.truth.iter().enumerate().rev();
        let last = changes.find(|(_, change)| selection.event(change).is_some());
        last.map_or(0, |(index, change)| match self.unsettled.get(&index) {
            Some((after, _)) => after + 1,
            None => change.version,
        })
    }

    /// Lists our objects.
    pub(crate) async fn list(&self, selection: &Selection, options: ListOptions) -> Result<Listed, Error> {
        let options = ListOptions {
            label_selector: match options.label_selector.is_everything() {
                true => self.label_selector(selection),
                false => options.label_selector,
            },
            field_selector: self.field_selector(selection),
            ..options
        };
        let list = self.api.list().with(&options).await?;
        let mut listed = Listed {
            version: list.head.resource_version.as_str().parse().unwrap_or_default(),
            objects: BTreeMap::new(),
            continue_token: list.head.continue_token.clone(),
            wrong: None,
        };
        for item in &list.items {
            let value = item.to_value().map_err(|error| error.to_string());
            match value.and_then(|value| self.read(&value)) {
                Ok(Some((name, state))) => listed.add(name, state),
                Ok(None) => {}
                Err(wrong) => listed.wrong = Some(wrong),
            }
        }
        Ok(listed)
    }

    /// Checks a list against the record.
    pub(crate) fn judge(&self, selection: &Selection, listed: &Listed) -> Result<(), Stop> {
        if let Some(wrong) = &listed.wrong {
            return Err(Stop::Broken(wrong.clone()));
        }
        let expected = objects_at(&self.truth, selection, listed.version);
        Ok(same(&listed.objects, &expected, listed.version)?)
    }

    /// Deletes the remaining objects. Returns those that could not be deleted.
    pub(crate) async fn clean_up(self) -> Vec<String> {
        let mut left = Vec::new();
        for name in self.written {
            if let Err(error) = self.api.delete(&name).await
                && !error.is_not_found()
            {
                left.push(format!("{}/{name}: {error}", self.kind.plural));
            }
        }
        left
    }

    /// Selects exactly our objects.
    pub(crate) fn ours(&self) -> LabelSelector {
        labels(RUN_LABEL, &self.run)
    }

    pub(crate) fn label_selector(&self, selection: &Selection) -> LabelSelector {
        let colour = selection.colour.as_deref();
        colour.map_or_else(LabelSelector::default, |colour| labels(COLOUR_LABEL, colour))
    }

    pub(crate) fn field_selector(&self, selection: &Selection) -> FieldSelector {
        let name = selection.name.as_deref();
        name.map_or_else(FieldSelector::default, |name| {
            FieldSelector::name(self.full_name(name))
        })
    }

    /// The name and state of an object; `None` if it is not ours.
    pub(crate) fn read(&self, object: &Value) -> Result<Option<(String, State)>, String> {
        let metadata = &object["metadata"];
        if metadata["labels"][RUN_LABEL] != *self.run {
            return Ok(None);
        }
        let full_name = metadata["name"].as_str().unwrap_or_default();
        let name = full_name.strip_prefix(&self.run).unwrap_or_default();
        let name = name.trim_start_matches('-').to_owned();
        let number = object["data"]["number"].as_str().unwrap_or_default();
        if object["data"]["whole"] != whole(number) {
            return Err(format!("{name} is not as it was written: {}", object["data"]));
        }
        let state = State {
            colour: metadata["labels"][COLOUR_LABEL]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            number: number.parse().unwrap_or_default(),
        };
        Ok(Some((name, state)))
    }

    fn full_name(&self, name: &str) -> String {
        format!("{}-{name}", self.run)
    }

    fn body(&self, name: &str, state: &State, version: Option<u64>) -> Value {
        let mut metadata = json!({
            "name": self.full_name(name),
            "labels": {RUN_LABEL: self.run, COLOUR_LABEL: state.colour},
        });
        if let Some(version) = version {
            metadata["resourceVersion"] = version.to_string().into();
        }
        let number = state.number.to_string();
        json!({
            "apiVersion": self.kind.group_version_kind().api_version(), "kind": self.kind.kind, "metadata": metadata,
            "data": {"whole": whole(&number), "number": number},
        })
    }
}

impl Listed {
    fn add(&mut self, name: String, state: State) {
        if self.objects.contains_key(&name) {
            self.wrong = Some(format!("the list at {} shows {name} twice", self.version));
        }
        self.objects.insert(name, state);
    }

    /// Adds the next page.
    pub(crate) fn extend(&mut self, page: Self) {
        self.continue_token = page.continue_token;
        self.wrong = self.wrong.take().or(page.wrong);
        for (name, state) in page.objects {
            self.add(name, state);
        }
    }
}

/// A version as a number.
pub(crate) fn number(version: &str) -> Result<u64, Stop> {
    let number = version.parse();
    number.map_err(|_| Stop::Broken(format!("the resourceVersion {version:?}, which is not a number")))
}

/// A version as text.
pub(crate) fn text(version: u64) -> ResourceVersion {
    ResourceVersion::new(version.to_string())
}

fn whole(number: &str) -> String {
    format!("{number} ").repeat(REPETITIONS)
}

fn labels(key: &str, value: &str) -> LabelSelector {
    LabelSelector::from_labels([(key, value)]).unwrap_or_default()
}
