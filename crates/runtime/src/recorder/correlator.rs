//! Decides which notes become a new Event, increment an existing one, or are dropped. Pure: time is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;
use watchkeeper_meta::validation::dns1123_subdomain;

use super::{Note, Reference};

/// The burst of notes per object, as in client-go.
pub(super) const BURST: u32 = 25;
/// The time per further note of an object, as in client-go.
pub(super) const REFILL: Duration = Duration::from_secs(300);
/// The number of notes differing only in their message that are combined, as in client-go.
pub(super) const SIMILAR: usize = 10;
/// The time within which they are combined, as in client-go.
pub(super) const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// The number of objects and notes remembered, as in client-go; the least recently used are dropped.
pub(super) const REMEMBERED: usize = 4096;

/// The prefix of a combined message, as in client-go.
const COMBINED: &str = "(combined from similar events): ";

/// The decision about a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Write nothing: the object is rate limited. The note still counts.
    Silent,
    /// Create an Event of this name.
    New {
        about: Reference,
        note: Note,
        name: String,
    },
    /// Increment the Event of this name.
    Again {
        about: Reference,
        note: Note,
        name: String,
        count: u64,
    },
}

impl Outcome {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Silent => "",
            Self::New { name, .. } | Self::Again { name, .. } => name,
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Silent => 0,
            Self::New { .. } => 1,
            Self::Again { count, .. } => *count,
        }
    }
}

/// The earlier notes.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    allowances: Memory<Reference, Allowance>,
    similar: Memory<(Reference, &'static str, String), Similar>,
    written: Memory<(Reference, Note), Written>,
    names: u64,
}

#[derive(Debug)]
struct Allowance {
    left: f64,
    since: Instant,
}

#[derive(Debug)]
struct Similar {
    messages: Vec<String>,
    last: Instant,
}

#[derive(Debug)]
struct Written {
    name: String,
    count: u64,
}

impl Correlator {
    pub(super) fn correlate(&mut self, about: Reference, note: Note, now: Instant) -> Outcome {
        let (kind, note) = match self.is_one_of_many(&about, &note, now) {
            true => combined(note),
            false => (note.clone(), note),
        };
        let allowed = self.allows(&about, now);
        self.names += 1;
        let serial = self.names;
        let known = self.written.get((about.clone(), kind), now, || Written {
            name: event_name(&about.name, serial),
            count: 0,
        });
        known.count += 1;
        let (name, count) = (known.name.clone(), known.count);
        match (allowed, count) {
            (false, _) => Outcome::Silent,
            (true, 1) => Outcome::New { about, note, name },
            (true, _) => Outcome::Again {
                about,
                note,
                name,
                count,
            },
        }
    }

    /// True if many notes differ only in their message; they become one, with the latest message.
    fn is_one_of_many(&mut self, about: &Reference, note: &Note, now: Instant) -> bool {
        let group = (about.clone(), note.event_type.as_str(), note.reason.clone());
        let similar = self.similar.get(group, now, || Similar {
            messages: Vec::new(),
            last: now,
        });
        if now.saturating_duration_since(similar.last) > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = now;
        if !similar.messages.contains(&note.message) && similar.messages.len() < SIMILAR {
            similar.messages.push(note.message.clone());
        }
        similar.messages.len() >= SIMILAR
    }

    /// A token bucket per object, so that one object cannot flood the server with Events.
    fn allows(&mut self, about: &Reference, now: Instant) -> bool {
        let allowance = self.allowances.get(about.clone(), now, || Allowance {
            left: f64::from(BURST),
            since: now,
        });
        let filled = now.saturating_duration_since(allowance.since).as_secs_f64() / REFILL.as_secs_f64();
        allowance.left = (allowance.left + filled).min(f64::from(BURST));
        allowance.since = now;
        if allowance.left < 1.0 {
            return false;
        }
        allowance.left -= 1.0;
        true
    }
}

/// The key under which a combined note is remembered, and the note to write.
fn combined(note: Note) -> (Note, Note) {
    let message = format!("{COMBINED}{}", note.message);
    let kind = Note {
        message: String::new(),
        ..note.clone()
    };
    (kind, Note { message, ..note })
}

/// The object's name and a unique suffix, as in client-go. Names that are not valid for Events, such as those of some
/// roles, are left out.
fn event_name(object: &str, serial: u64) -> String {
    let own = format!("{:x}{:04x}", fastrand::u64(..) >> 16, serial & 0xffff);
    let name = format!("{object}.{own}");
    match dns1123_subdomain(&name).is_empty() {
        true => name,
        false => own,
    }
}

/// A map with a bounded size that drops the least recently used entries.
#[derive(Debug)]
struct Memory<K, V> {
    entries: HashMap<K, (Instant, V)>,
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq + Clone, V> Memory<K, V> {
    fn get(&mut self, key: K, now: Instant, make: impl FnOnce() -> V) -> &mut V {
        if self.entries.len() >= REMEMBERED && !self.entries.contains_key(&key) {
            self.forget_half();
        }
        let entry = self.entries.entry(key).or_insert_with(|| (now, make()));
        entry.0 = now;
        &mut entry.1
    }

    /// Half at once, so that a full map costs little per note.
    fn forget_half(&mut self) {
        let mut used: Vec<Instant> = self.entries.values().map(|(used, _)| *used).collect();
        used.sort();
        let middle = used[used.len() / 2];
        let mut surplus = self.entries.len() / 2;
        self.entries.retain(|_, (used, _)| {
            let goes = *used <= middle && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::EventType;

    fn about(name: &str) -> Reference {
        Reference {
            host: "".into(),
            field_path: String::new(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "ns".into(),
            name: name.into(),
            uid: "u".into(),
        }
    }

    fn note(message: &str) -> Note {
        Note {
            event_type: EventType::Normal,
            reason: "Pulled".into(),
            message: message.into(),
        }
    }

    fn now() -> Instant {
        Instant::now()
    }

    #[tokio::test(start_paused = true)]
    async fn equal_notes_become_one_event_with_a_count() {
        let mut correlator = Correlator::default();
        let first = correlator.correlate(about("a"), note("x"), now());
        assert!(matches!(first, Outcome::New { .. }) && first.name().starts_with("a."));
        let second = correlator.correlate(about("a"), note("x"), now());
        assert_eq!((second.count(), second.name()), (2, first.name()));
        let other = correlator.correlate(about("b"), note("x"), now());
        assert_eq!(other.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_notes_about_one_object_are_left_out() {
        let mut correlator = Correlator::default();
        let mut told = || correlator.correlate(about("a"), note("x"), now()) != Outcome::Silent;
        assert_eq!((0..40).filter(|_| told()).count(), BURST as usize);
        tokio::time::advance(REFILL).await;
        assert!(told());
        assert!(!told());
        tokio::time::advance(REFILL).await;
        let last = correlator.correlate(about("a"), note("x"), now());
        assert_eq!(last.count(), 43, "those left out count");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_about_a_role_has_a_name_that_servers_take() {
        let mut correlator = Correlator::default();
        for name in ["a", "system:node", &"a".repeat(253)] {
            let outcome = correlator.correlate(about(name), note("x"), now());
            assert_eq!(dns1123_subdomain(outcome.name()), Vec::<String>::new());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn notes_that_differ_only_in_words_are_combined() {
        let mut correlator = Correlator::default();
        let mut last = Outcome::Silent;
        for number in 0..12 {
            last = correlator.correlate(about("a"), note(&format!("image {number}")), now());
        }
        let Outcome::Again { note, count, .. } = last else {
            panic!("combined")
        };
        assert_eq!(note.message, "(combined from similar events): image 11");
        assert_eq!(count, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let mut correlator = Correlator::default();
        for number in 0..3 * REMEMBERED {
            correlator.correlate(about(&number.to_string()), note("x"), now());
        }
        assert!(correlator.written.entries.len() <= REMEMBERED);
        assert!(correlator.allowances.entries.len() <= REMEMBERED);
    }
}
