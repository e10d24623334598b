//! The guarantees of a watch, one function each, over the recorded history of one watcher.
//!
//! The truth is every change in the order the server made them. A history is what one watcher saw of it through one
//! selection, over any number of streams: it starts with a snapshot, resumes at its version, and takes a new snapshot
//! when that has expired. The functions are pure, so that histories from anywhere can be checked: a simulation, a
//! server that was killed, a remote server.
//!
//! ```text
//! truth      2 a created, red     3 b created, blue     5 a becomes blue     6 a becomes red     8 a deleted
//! red things [a] at 2                                   DELETED a at 5       ADDED a at 6        DELETED a at 8
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The state of an object, as far as the guarantees are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The value of its label.
    pub colour: String,
    /// Its content, different with every write.
    pub number: u64,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its version.
    pub version: u64,
    /// The object.
    pub name: String,
    /// The state before; `None` if the object did not exist.
    pub before: Option<State>,
    /// The state after; `None` if it was deleted.
    pub after: Option<State>,
}

/// The selectors of a watcher; unset ones match everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By label.
    pub colour: Option<String>,
    /// By field.
    pub name: Option<String>,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The object is new to the watcher.
    Added,
    /// The object has changed.
    Modified,
    /// The object was deleted, or is no longer selected.
    Deleted,
}

/// An event as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The version of the object it carries.
    pub version: u64,
    /// Its type.
    pub kind: Kind,
    /// The object.
    pub name: String,
    /// The state it shows.
    pub state: State,
}

/// An item of a stream.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A change.
    Event(Event),
    /// Everything up to this version has been delivered.
    Bookmark(u64),
    /// The version to resume from has expired.
    Expired {
        /// The version after which the history began then; `u64::MAX` if unknown.
        compacted: u64,
    },
}

/// The start of a stream.
#[derive(Clone, Debug)]
pub enum Start {
    /// With all objects at a version: from a list, or from initial events and their final bookmark.
    Snapshot {
        /// The version.
        version: u64,
        /// The objects by name.
        objects: BTreeMap<String, State>,
    },
    /// After a version.
    Resumed(u64),
}

/// One stream from beginning to end.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its start.
    pub start: Start,
    /// Its items, in order.
    pub seen: Vec<Seen>,
}

/// Everything one watcher saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Its selection.
    pub selection: Selection,
    /// Its streams, in order.
    pub sessions: Vec<Session>,
    /// The watcher has waited for everything up to this version.
    pub caught_up: u64,
}

/// The result of a check: passed, or a description of the violation.
pub type Verdict = Result<(), String>;

impl Selection {
    /// True if an object in this state is selected.
    pub fn matches(&self, name: &str, state: &State) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
            && self.colour.as_deref().is_none_or(|wanted| wanted == state.colour)
    }

    /// The event of a change for this selection; `None` if there is none.
    pub fn event(&self, change: &Change) -> Option<Event> {
        let selected =
            |state: &Option<State>| state.clone().filter(|state| self.matches(&change.name, state));
        let (kind, state) = match (selected(&change.before), selected(&change.after)) {
            (None, Some(after)) => (Kind::Added, after),
            (Some(_), Some(after)) => (Kind::Modified, after),
            (Some(before), None) => (Kind::Deleted, before),
            (None, None) => return None,
        };
        Some(Event {
            version: change.version,
            kind,
            name: change.name.clone(),
            state,
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.colour, self.number)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Added => "ADDED",
            Kind::Modified => "MODIFIED",
            Kind::Deleted => "DELETED",
        };
        write!(f, "{kind} {} ({}) at {}", self.name, self.state, self.version)
    }
}

impl Session {
    fn began(&self) -> u64 {
        match self.start {
            Start::Snapshot { version, .. } | Start::Resumed(version) => version,
        }
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.seen.iter().filter_map(|seen| match seen {
            Seen::Event(event) => Some(event),
            _ => None,
        })
    }

    /// The version to resume from.
    pub fn position(&self) -> u64 {
        self.seen.iter().fold(self.began(), |position, seen| match seen {
            Seen::Event(Event { version, .. }) | Seen::Bookmark(version) => *version,
            Seen::Expired { .. } => position,
        })
    }

    /// True if its version has expired.
    pub fn expired(&self) -> bool {
        self.seen.iter().any(|seen| matches!(seen, Seen::Expired { .. }))
    }
}

/// Checks all guarantees.
pub fn all_kept(truth: &[Change], history: &History) -> Verdict {
    ordered(history)?;
    unique(history)?;
    snapshots_true(truth, history)?;
    gap_free(truth, history)?;
    resumable(truth, history)?;
    bookmarkable(truth, history)?;
    filtered(truth, history)
}

/// Versions never go back, within a stream or from one to the next.
pub fn ordered(history: &History) -> Verdict {
    for session in &history.sessions {
        let mut last = session.began();
        for event in session.events() {
            if event.version < last {
                return Err(format!("{event} came after version {last}"));
            }
            last = event.version;
        }
    }
    Ok(())
}

/// No change is delivered twice between two snapshots, nor one that the snapshot already shows.
pub fn unique(history: &History) -> Verdict {
    let mut delivered = BTreeSet::new();
    for session in &history.sessions {
        if let Start::Snapshot { version, .. } = session.start {
            delivered = BTreeSet::from([version]);
        }
        for event in session.events() {
            if !delivered.insert(event.version) {
                return Err(format!("{event} came twice"));
            }
        }
    }
    Ok(())
}

/// A snapshot shows every object at its version.
pub fn snapshots_true(truth: &[Change], history: &History) -> Verdict {
    for session in &history.sessions {
        if let Start::Snapshot { version, objects } = &session.start {
            same(
                objects,
                &objects_at(truth, &history.selection, *version),
                *version,
            )?;
        }
    }
    Ok(())
}

/// A stream delivers every change up to the version it has reached.
pub fn gap_free(truth: &[Change], history: &History) -> Verdict {
    let last = history.sessions.len().saturating_sub(1);
    for (index, session) in history.sessions.iter().enumerate() {
        let end = match index == last && !session.expired() {
            true => session.position().max(history.caught_up),
            false => session.position(),
        };
        let delivered: BTreeSet<_> = session.events().map(|event| event.version).collect();
        for event in selected(truth, &history.selection, session.began()..=end) {
            if !delivered.contains(&event.version) {
                return Err(format!("{event} was never delivered"));
            }
        }
    }
    Ok(())
}

/// A watcher resumes with the next change, or gets an error that its version has expired, and only if that is true.
pub fn resumable(truth: &[Change], history: &History) -> Verdict {
    for pair in history.sessions.windows(2) {
        let position = pair[0].position();
        match pair[1].start {
            Start::Resumed(version) if version != position => {
                return Err(format!("resumed at {version}, but was at {position}"));
            }
            Start::Resumed(_) if pair[0].expired() => return Err(format!("{position} came back to life")),
            _ => {}
        }
    }
    for session in &history.sessions {
        for (index, seen) in session.seen.iter().enumerate() {
            let Seen::Expired { compacted } = seen else {
                continue;
            };
            if index + 1 != session.seen.len() {
                return Err("a stream went on after it had expired".to_owned());
            }
            if session.position() >= *compacted {
                return Err(format!(
                    "{} expired with history since {compacted}",
                    session.position()
                ));
            }
        }
        let first = session.events().next();
        let expected = selected(truth, &history.selection, session.began()..=u64::MAX).next();
        if let Some(first) = first
            && expected.as_ref().map(|event| event.version) != Some(first.version)
        {
            return Err(format!(
                "after {} came {first}, {}",
                session.began(),
                instead_of(expected.as_ref())
            ));
        }
    }
    Ok(())
}

/// At a bookmark everything up to its version has been delivered, and nothing up to it follows.
pub fn bookmarkable(truth: &[Change], history: &History) -> Verdict {
    for session in &history.sessions {
        let (mut delivered, mut bookmark) = (BTreeSet::new(), session.began());
        for seen in &session.seen {
            match seen {
                Seen::Event(event) if event.version <= bookmark => {
                    return Err(format!("{event} came after bookmark {bookmark}"));
                }
                Seen::Event(event) => drop(delivered.insert(event.version)),
                Seen::Bookmark(version) => {
                    if *version < bookmark {
                        return Err(format!("bookmark {version} came after bookmark {bookmark}"));
                    }
                    if let Some(last) = delivered.last().filter(|last| version < last) {
                        return Err(format!("bookmark {version} came after an event at {last}"));
                    }
                    for event in selected(truth, &history.selection, bookmark..=*version) {
                        if !delivered.contains(&event.version) {
                            return Err(format!("bookmark {version} came before {event}"));
                        }
                    }
                    bookmark = *version;
                }
                Seen::Expired { .. } => {}
            }
        }
    }
    Ok(())
}

/// Every event is exactly that of its change for the selection: none is invented, has another type or shows another
/// state.
pub fn filtered(truth: &[Change], history: &History) -> Verdict {
    let meant = selected(truth, &history.selection, 0..=u64::MAX);
    let meant: BTreeMap<_, _> = meant.map(|event| (event.version, event)).collect();
    for event in history.sessions.iter().flat_map(Session::events) {
        if meant.get(&event.version) != Some(event) {
            return Err(format!("{event} came, {}", instead_of(meant.get(&event.version))));
        }
    }
    Ok(())
}

/// The events of a range of versions, the first one excluded.
fn selected(
    truth: &[Change],
    selection: &Selection,
    versions: std::ops::RangeInclusive<u64>,
) -> impl Iterator<Item = Event> {
    truth
        .iter()
        .filter(move |change| change.version > *versions.start() && change.version <= *versions.end())
        .filter_map(|change| selection.event(change))
}

/// Describes the expected event.
fn instead_of(expected: Option<&Event>) -> String {
    match expected {
        Some(expected) => format!("not {expected}"),
        None => "which nobody caused".to_owned(),
    }
}

/// Compares a list with the expected objects; the error names the first difference.
pub(crate) fn same(
    found: &BTreeMap<String, State>,
    expected: &BTreeMap<String, State>,
    version: u64,
) -> Verdict {
    let names: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    for name in names {
        let (found, expected) = (found.get(name), expected.get(name));
        if found != expected {
            let words = |state: Option<&State>| state.map_or("absent".to_owned(), ToString::to_string);
            return Err(format!(
                "the list at {version} shows {name} {}, not {}",
                words(found),
                words(expected)
            ));
        }
    }
    Ok(())
}

/// The objects of a list at a version.
pub fn objects_at(truth: &[Change], selection: &Selection, version: u64) -> BTreeMap<String, State> {
    let mut objects = BTreeMap::new();
    for change in truth.iter().filter(|change| change.version <= version) {
        match &change.after {
            Some(state) => objects.insert(change.name.clone(), state.clone()),
            None => objects.remove(&change.name),
        };
    }
    objects.retain(|name, state| selection.matches(name, state));
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(colour: &str, number: u64) -> Option<State> {
        Some(State {
            colour: colour.to_owned(),
            number,
        })
    }

    /// `a` is created red, becomes blue, becomes red again and is deleted; `b` is always blue.
    fn truth() -> Vec<Change> {
        let change = |version, name: &str, before, after| Change {
            version,
            name: name.to_owned(),
            before,
            after,
        };
        vec![
            change(2, "a", None, state("red", 1)),
            change(3, "b", None, state("blue", 1)),
            change(5, "a", state("red", 1), state("blue", 2)),
            change(6, "a", state("blue", 2), state("red", 3)),
            change(8, "a", state("red", 3), None),
        ]
    }

    fn event(version: u64, kind: Kind, number: u64) -> Seen {
        Seen::Event(Event {
            version,
            kind,
            name: "a".to_owned(),
            state: state("red", number).unwrap(),
        })
    }

    /// The events that a watcher of red objects sees, over two streams.
    fn good() -> History {
        let objects = BTreeMap::from([("a".to_owned(), state("red", 1).unwrap())]);
        let first = Session {
            start: Start::Snapshot { version: 2, objects },
            seen: vec![event(5, Kind::Deleted, 1), Seen::Bookmark(5)],
        };
        let second = Session {
            start: Start::Resumed(5),
            seen: vec![
                event(6, Kind::Added, 3),
                event(8, Kind::Deleted, 3),
                Seen::Bookmark(8),
            ],
        };
        History {
            selection: Selection {
                colour: Some("red".to_owned()),
                name: None,
            },
            sessions: vec![first, second],
            caught_up: 8,
        }
    }

    /// A correct history passes; after `spoil` the violation is found.
    fn check(promise: impl Fn(&History) -> Verdict, expected: &str, spoil: impl Fn(&mut History)) {
        let mut history = good();
        assert_eq!(promise(&history), Ok(()));
        spoil(&mut history);
        let broken = promise(&history).unwrap_err();
        assert!(broken.contains(expected), "{broken}");
    }

    #[test]
    fn a_good_history_keeps_all_promises() {
        assert_eq!(all_kept(&truth(), &good()), Ok(()));
    }

    #[test]
    fn a_swap_breaks_order() {
        check(ordered, "came after version 8", |history| {
            history.sessions[1].seen.swap(0, 1);
        });
    }

    #[test]
    fn a_repetition_is_not_unique() {
        check(unique, "came twice", |history| {
            history.sessions[1].seen.insert(0, event(5, Kind::Deleted, 1));
        });
        check(unique, "came twice", |history| {
            history.sessions[0].seen.insert(0, event(2, Kind::Added, 1));
        });
    }

    #[test]
    fn a_missing_event_is_a_gap() {
        let promise = |history: &History| gap_free(&truth(), history);
        check(promise, "ADDED a (red 3) at 6 was never", |history| {
            history.sessions[1].seen.remove(0);
        });
        // Even if nothing follows it.
        check(promise, "DELETED a (red 3) at 8 was never", |history| {
            history.sessions[1].seen.truncate(1);
        });
    }

    #[test]
    fn a_snapshot_without_an_object_is_false() {
        let promise = |history: &History| snapshots_true(&truth(), history);
        check(promise, "the list at 2 shows a absent, not red 1", |history| {
            let objects = BTreeMap::new();
            history.sessions[0].start = Start::Snapshot { version: 2, objects };
        });
    }

    #[test]
    fn a_leap_is_no_resumption() {
        let promise = |history: &History| resumable(&truth(), history);
        check(promise, "but was at 5", |history| {
            history.sessions[1].start = Start::Resumed(6);
        });
        check(promise, "not ADDED a (red 3) at 6", |history| {
            history.sessions[1].seen.remove(0);
        });
        check(promise, "5 expired with history since 5", |history| {
            history.sessions[1].seen = vec![Seen::Expired { compacted: 5 }];
        });
        check(promise, "went on after it had expired", |history| {
            history.sessions[1].seen.insert(0, Seen::Expired { compacted: 6 });
        });
    }

    #[test]
    fn a_bookmark_ahead_of_events_is_a_lie() {
        let promise = |history: &History| bookmarkable(&truth(), history);
        check(promise, "bookmark 8 came before", |history| {
            history.sessions[1].seen.remove(1);
        });
        check(promise, "came after bookmark 8", |history| {
            history.sessions[1].seen.push(event(8, Kind::Deleted, 3));
        });
        check(promise, "came after bookmark 5", |history| {
            history.sessions[1].seen.insert(0, Seen::Bookmark(4));
        });
        check(promise, "bookmark 7 came after an event at 8", |history| {
            history.sessions[1].seen[2] = Seen::Bookmark(7);
        });
    }

    #[test]
    fn an_event_of_another_kind_or_state_is_not_filtered() {
        let promise = |history: &History| filtered(&truth(), history);
        check(promise, "MODIFIED a (red 3) at 6 came", |history| {
            history.sessions[1].seen[0] = event(6, Kind::Modified, 3);
        });
        // An object that leaves a selection is shown in its last selected state.
        check(promise, "DELETED a (red 2) at 5 came", |history| {
            history.sessions[0].seen[0] = event(5, Kind::Deleted, 2);
        });
        check(
            promise,
            "ADDED a (red 4) at 9 came, which nobody caused",
            |history| {
                history.sessions[1].seen.push(event(9, Kind::Added, 4));
            },
        );
    }
}
