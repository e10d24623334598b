//! Turns the events of one watcher into [`FollowEvent`]s by comparing them with the inventory.
//!
//! A list has no event types, so each of its objects is compared with the inventory; what the inventory has and the
//! list has not was deleted.
//!
//! | held | the server has | told |
//! |---|---|---|
//! | nothing | an object | `Added` |
//! | the same version of it | it | nothing |
//! | another version of it | it | `Modified` |
//! | another uid | it | `Deleted` without a final state, then `Added` |
//! | an object | nothing | `Deleted`; without a final state if a list says so |
//!
//! Watch events have types, and the table gives the same ones. They differ only after an event that could not be
//! decoded; then the table decides, because it reflects what the follower was sent. Without a complete inventory, the
//! server's type is passed on.
//!
//! A first list is delivered as it arrives. The differences of a later one are held until its end, because only the
//! end has the version they lead to, and delivered after [`FollowEvent::Restarted`]; [`MAX_WAITING`] bounds their
//! number.

use std::collections::BTreeMap;

use watchkeeper_meta::{ObjectKey, ResourceVersion};
use watchkeeper_wire::Object;

use super::{FollowEvent, Gone, Restart};
use crate::position::{Held, StreamPosition};
use crate::watcher::{Event, Failure};

/// The largest number of differing objects held until the end of a list. With more, the restart is reported before
/// its version is known.
pub const MAX_WAITING: usize = 10_000;

/// The state of the list in progress, if any.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    list: Option<List>,
}

/// A list in progress.
#[derive(Debug)]
struct List {
    /// The restart to report first; `None` if it was reported, or nothing was held before.
    restart: Option<Restart>,
    seen: BTreeMap<ObjectKey, Seen>,
    /// The number of objects held.
    waiting: usize,
    /// True if the list had an object without a readable key: any missing object may be that one.
    has_nameless: bool,
}

/// One object of a list.
#[derive(Debug)]
enum Seen {
    /// Delivered, or unchanged.
    Settled,
    /// To be delivered.
    Waiting(Object),
    /// Deleted, in this state, before the list was complete.
    Deleted(Object),
}

impl Ledger {
    /// True while a list is in progress.
    pub(super) fn is_listing(&self) -> bool {
        self.list.is_some()
    }

    /// Processes an event; returns the events to deliver. `held` is the inventory after all earlier events.
    pub(super) fn note(
        &mut self,
        event: Event<Object>,
        reason: Option<&Failure>,
        held: &StreamPosition,
    ) -> Vec<FollowEvent> {
        match (event, &mut self.list) {
            (Event::Init, list) => {
                *list = Some(List::begin(reason, held));
                Vec::new()
            }
            (Event::InitApply(object), Some(list)) => list.add(object, held),
            (Event::Deleted(object), Some(list)) => list.delete(object, held),
            (Event::InitDone(version), list) => match list.take() {
                Some(list) => list.finish(version, held),
                None => vec![FollowEvent::Synced(version)],
            },
            (Event::Progress(version), _) => vec![FollowEvent::Bookmark(version)],
            (Event::Deleted(object), None) if held.is_complete => deleted(held, object).into_iter().collect(),
            (Event::Added(object) | Event::Modified(object) | Event::InitApply(object), _)
                if held.is_complete =>
            {
                difference(held, &object)
            }
            (Event::Added(object) | Event::InitApply(object), _) => vec![FollowEvent::Added(object)],
            (Event::Modified(object), _) => vec![FollowEvent::Modified(object)],
            (Event::Deleted(object), None) => vec![FollowEvent::Deleted(Gone::seen(object))],
        }
    }

    /// An object of the list cannot be decoded. It exists, so it is not reported as deleted.
    pub(super) fn unread(&mut self, key: Option<&ObjectKey>) {
        match (&mut self.list, key) {
            (Some(list), Some(key)) => {
                list.seen.entry(key.clone()).or_insert(Seen::Settled);
            }
            (Some(list), None) => list.has_nameless = true,
            (None, _) => {}
        }
    }
}

impl List {
    fn begin(reason: Option<&Failure>, held: &StreamPosition) -> Self {
        let is_first = held.version.is_unset() && held.inventory.is_empty();
        let restart = || Restart {
            from: Some(held.version.clone()).filter(|version| !version.is_unset()),
            to: None,
            reason: reason.map_or_else(|| "the last list was interrupted".into(), ToString::to_string),
            knows_deletes: held.is_complete || held.version.is_unset(),
        };
        Self {
            restart: (!is_first).then(restart),
            seen: BTreeMap::new(),
            waiting: 0,
            has_nameless: false,
        }
    }

    fn add(&mut self, object: Object, held: &StreamPosition) -> Vec<FollowEvent> {
        let key = object.key();
        if self.restart.is_none() {
            self.seen.insert(key, Seen::Settled);
            return difference(held, &object);
        }
        let differs = held
            .inventory
            .get(&key)
            .is_none_or(|held| !is_same(held, &object));
        let seen = if differs {
            Seen::Waiting(object)
        } else {
            Seen::Settled
        };
        let before = self.seen.insert(key, seen);
        self.waiting += usize::from(differs && !matches!(before, Some(Seen::Waiting(_))));
        if self.waiting <= MAX_WAITING {
            return Vec::new();
        }
        let mut told = self.take_restart(None);
        told.extend(self.take_waiting(held));
        told
    }

    /// The server reports a deletion while the list arrives.
    fn delete(&mut self, object: Object, held: &StreamPosition) -> Vec<FollowEvent> {
        if self.restart.is_some() {
            self.seen.insert(object.key(), Seen::Deleted(object));
            return Vec::new();
        }
        self.seen.remove(&object.key());
        deleted(held, object).into_iter().collect()
    }

    fn finish(mut self, version: ResourceVersion, held: &StreamPosition) -> Vec<FollowEvent> {
        let mut told = self.take_restart(Some(version.clone()));
        told.extend(self.missing(held));
        told.extend(self.take_waiting(held));
        told.push(FollowEvent::Synced(version));
        told
    }

    fn take_restart(&mut self, to: Option<ResourceVersion>) -> Vec<FollowEvent> {
        let restart = self.restart.take().map(|restart| Restart { to, ..restart });
        restart.map(FollowEvent::Restarted).into_iter().collect()
    }

    fn take_waiting(&mut self, held: &StreamPosition) -> Vec<FollowEvent> {
        let mut told = Vec::new();
        for seen in self.seen.values_mut() {
            match std::mem::replace(seen, Seen::Settled) {
                Seen::Settled => {}
                Seen::Waiting(object) => told.extend(difference(held, &object)),
                Seen::Deleted(object) => told.extend(deleted(held, object)),
            }
        }
        told
    }

    /// Objects that are held but not listed, in list order.
    fn missing(&self, held: &StreamPosition) -> Vec<FollowEvent> {
        if self.has_nameless {
            return Vec::new();
        }
        let missing = held
            .inventory
            .iter()
            .filter(|(key, _)| !self.seen.contains_key(key));
        let mut missing: Vec<_> = missing.map(|(key, held)| Gone::unseen(key, held)).collect();
        missing.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        missing.into_iter().map(FollowEvent::Deleted).collect()
    }
}

/// The event for an existing object, given the inventory.
fn difference(held: &StreamPosition, object: &Object) -> Vec<FollowEvent> {
    let key = object.key();
    match held.inventory.get(&key) {
        None => vec![FollowEvent::Added(object.clone())],
        Some(held) if is_same(held, object) => Vec::new(),
        Some(held) if *held.uid == *object.uid() => vec![FollowEvent::Modified(object.clone())],
        Some(held) => vec![
            FollowEvent::Deleted(Gone::unseen(&key, held)),
            FollowEvent::Added(object.clone()),
        ],
    }
}

/// The event for a deletion, given the inventory; none for an unknown object.
fn deleted(held: &StreamPosition, object: Object) -> Option<FollowEvent> {
    let key = object.key();
    let known = held.inventory.get(&key)?;
    let gone = match *known.uid == *object.uid() {
        true => Gone::seen(object),
        // Another object of that name was created and deleted unseen.
        false => Gone::unseen(&key, known),
    };
    Some(FollowEvent::Deleted(gone))
}

fn is_same(held: &Held, object: &Object) -> bool {
    *held.uid == *object.uid() && held.version.as_str() == object.resource_version()
}
