//! Read-your-writes: a reconcile sees at least what earlier reconciles of its key have written.
//!
//! Every acknowledged write of a reconcile is noted with its version. The next reconcile of the key starts only when
//! the informers show it; until then the key is skipped and requeued, which occupies no worker. The event of the write
//! usually queues the key at once, so the delay of a requeue matters only if a predicate drops that event.
//!
//! ```text
//!   reconcile a: creates pod a-1 (version 7) ─▶ noted: a waits for pods at 7
//!   another event queues a, pods are at 6    ─▶ skipped, and counted in stale_sync_skips_total
//!   pods are at 7                            ─▶ reconciled, and finds a-1 in its store
//! ```
//!
//! Noted are writes of kinds the controller has an informer of, if the informer selects the object or has it. Not
//! noted: objects selected by fields, and writes whose answer was lost, because their version is unknown.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_client::{Client, Write, WriteEffect};
use watchkeeper_meta::{ObjectKey, ResourceVersion};

use crate::clock::now;
use crate::informer::Informer;

/// The longest time a reconcile waits for its own writes. Twice the interval of bookmarks, which advance a store
/// whose objects do not change.
pub const OWN_WRITES_DEADLINE: Duration = Duration::from_secs(120);

/// The delay after the first skip; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(10);

/// The longest delay between two attempts.
const LONGEST_DELAY: Duration = Duration::from_secs(1);

/// The most writes a key waits for: the latest per informer and namespace. Beyond it the oldest is forgotten.
const MOST_WRITES: usize = 64;

/// The number of keys with noted writes below which none are looked for that can be forgotten.
const FEW_KEYS: usize = 1024;

/// The writes of a controller that its informers may not show yet.
pub(super) struct OwnWrites {
    informers: Vec<Informer>,
    deadline: Duration,
    unseen: Mutex<Unseen>,
}

struct Unseen {
    keys: HashMap<ObjectKey, KeyWrites>,
    /// The number of keys at which those are removed that no longer wait.
    sweep_at: usize,
}

/// The writes of the reconciles of one key.
struct KeyWrites {
    writes: Vec<Awaited>,
    latest: Instant,
    skips: u32,
}

/// One write, and the informer that will show it.
struct Awaited {
    informer: usize,
    key: ObjectKey,
    uid: String,
    effect: WriteEffect,
}

/// Notes the writes of one reconcile, so that the next one of its key sees them.
#[derive(Clone, Default)]
pub struct Writes {
    noted: Option<(Weak<OwnWrites>, ObjectKey)>,
}

impl Writes {
    /// The same client, whose writes are noted. A [`Context`](super::Context) has one already.
    pub fn client(&self, client: &Client) -> Client {
        let Some((own, key)) = self.noted.clone() else {
            return client.clone();
        };
        client.observing_writes(Arc::new(move |write| {
            if let Some(own) = own.upgrade() {
                own.note(&key, write, now());
            }
        }))
    }
}

impl OwnWrites {
    pub(super) fn new(informers: Vec<Informer>, deadline: Duration) -> Self {
        let unseen = Unseen {
            keys: HashMap::new(),
            sweep_at: FEW_KEYS,
        };
        Self {
            informers,
            deadline,
            unseen: Mutex::new(unseen),
        }
    }

    /// Notes the writes of a reconcile of this key.
    pub(super) fn writes_of(self: &Arc<Self>, key: &ObjectKey) -> Writes {
        Writes {
            noted: Some((Arc::downgrade(self), key.clone())),
        }
    }

    fn note(&self, key: &ObjectKey, write: &Write<'_>, now: Instant) {
        let name = write.resource.group_resource().to_string();
        let shown_by = |(_, informer): &(usize, &Informer)| {
            *informer.name() == name
                && (write.object.is_some_and(|object| informer.selects(object))
                    || informer.store().get(&write.key).is_some())
        };
        let informers = self.informers.iter().enumerate().filter(shown_by);
        let awaited: Vec<_> = informers.map(|(index, _)| Awaited::new(index, write)).collect();
        if awaited.is_empty() {
            return;
        }
        let mut unseen = self.unseen.lock();
        let noted = unseen
            .keys
            .entry(key.clone())
            .or_insert_with(|| KeyWrites::new(now));
        noted.latest = now;
        awaited.into_iter().for_each(|write| noted.add(write));
        self.sweep(&mut unseen, now);
    }

    /// The time after which to try again, if the informers do not yet show the writes of a key.
    pub(super) fn stale(&self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        let mut unseen = self.unseen.lock();
        let noted = unseen.keys.get_mut(key)?;
        noted.writes.retain(|write| !self.shows(write));
        match noted.writes.first() {
            Some(_) if !self.is_overdue(noted, now) => Some(noted.skip()),
            Some(write) => {
                let informer = self.informers[write.informer].name();
                tracing::warn!(%key, informer, written = %write.key, "the informer does not show an own write in time");
                unseen.keys.remove(key);
                None
            }
            None => {
                unseen.keys.remove(key);
                None
            }
        }
    }

    fn is_overdue(&self, noted: &KeyWrites, now: Instant) -> bool {
        now.saturating_duration_since(noted.latest) >= self.deadline
    }

    fn shows(&self, write: &Awaited) -> bool {
        let state = self.informers[write.informer].store().snapshot();
        let known = state.find(write.key.namespace(), write.key.name());
        match &write.effect {
            WriteEffect::Stored(version) => {
                reaches(state.version(), version)
                    || known.is_some_and(|known| reaches(&known.version(), version))
            }
            WriteEffect::Deleted => known.is_none_or(|known| known.uid() != write.uid || known.is_deleting()),
        }
    }

    /// Forgets keys that no longer wait but were not reconciled again. Amortized: their number has doubled since.
    fn sweep(&self, unseen: &mut Unseen, now: Instant) {
        if unseen.keys.len() < unseen.sweep_at {
            return;
        }
        let waits = |noted: &KeyWrites| noted.writes.iter().any(|write| !self.shows(write));
        unseen
            .keys
            .retain(|_, noted| !self.is_overdue(noted, now) && waits(noted));
        unseen.sweep_at = FEW_KEYS.max(unseen.keys.len() * 2);
    }
}

impl KeyWrites {
    fn new(now: Instant) -> Self {
        Self {
            writes: Vec::new(),
            latest: now,
            skips: 0,
        }
    }

    /// Adds a write. An informer shows the writes of a namespace in order, so only the latest one counts.
    fn add(&mut self, write: Awaited) {
        if let Some(known) = self
            .writes
            .iter_mut()
            .find(|known| known.is_superseded_by(&write))
        {
            *known = write;
            return;
        }
        if self.writes.len() == MOST_WRITES {
            self.writes.remove(0);
        }
        self.writes.push(write);
    }

    /// Counts a skip; returns the delay of the next attempt.
    fn skip(&mut self) -> Duration {
        let delay = FIRST_DELAY.saturating_mul(1 << self.skips.min(16));
        self.skips += 1;
        delay.min(LONGEST_DELAY)
    }
}

impl Awaited {
    fn new(informer: usize, write: &Write<'_>) -> Self {
        Self {
            informer,
            key: write.key.clone(),
            uid: write.uid.to_owned(),
            effect: write.effect.clone(),
        }
    }

    fn is_superseded_by(&self, later: &Self) -> bool {
        let same_stream = self.informer == later.informer && self.key.namespace() == later.key.namespace();
        match (&self.effect, &later.effect) {
            (WriteEffect::Stored(one), WriteEffect::Stored(other)) => same_stream && reaches(other, one),
            (WriteEffect::Deleted, WriteEffect::Deleted) => same_stream && self.key == later.key,
            _ => false,
        }
    }
}

/// Versions without an order count as reached: a reconcile too early harms less than one that waits in vain.
fn reaches(version: &ResourceVersion, wanted: &ResourceVersion) -> bool {
    version.compare(wanted) != Some(Ordering::Less)
}

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writes")
            .field("noted", &self.noted.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_meta::Resource;
    use watchkeeper_wire::Object;

    use super::*;
    use crate::controller::tests::{Feed, fed};
    use crate::store::tests::object;
    use crate::watcher::Input;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// A controller over an informer fed by hand, whose source has no name of a resource.
    async fn own(listed: &[&str]) -> (OwnWrites, Feed, Informer) {
        let listed: Vec<Object> = listed.iter().map(|text| object(text)).collect();
        let (informer, feed) = fed(&listed);
        informer.store().synced().await.unwrap();
        (OwnWrites::new(vec![informer.clone()], DEADLINE), feed, informer)
    }

    fn things() -> Resource {
        Resource::namespaced("", "v1", "Object", "objects")
    }

    fn wrote(own: &OwnWrites, text: &str) {
        let object = object(text);
        let write = |resource| Write {
            resource,
            key: object.key(),
            uid: object.uid(),
            effect: WriteEffect::Stored(object.version()),
            object: Some(&object),
        };
        own.note(&key(), &write(&things()), now());
    }

    fn deleted(own: &OwnWrites, text: &str) {
        let object = object(text);
        let resource = things();
        let write = Write {
            resource: &resource,
            key: object.key(),
            uid: object.uid(),
            effect: WriteEffect::Deleted,
            object: Some(&object),
        };
        own.note(&key(), &write, now());
    }

    fn key() -> ObjectKey {
        ObjectKey::new("a", "owner")
    }

    fn stale(own: &OwnWrites) -> bool {
        own.stale(&key(), now()).is_some()
    }

    async fn feed_until(feed: &Feed, informer: &Informer, change: Input<Object>, version: &str) {
        feed.send(change).unwrap();
        let wanted = ResourceVersion::new(version);
        informer.store().wait_for(&wanted, DEADLINE).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_until_the_store_shows_its_latest_write() {
        let (own, feed, informer) = own(&[]).await;
        assert!(!stale(&own), "nothing was written");
        wrote(&own, "a/x@6");
        wrote(&own, "a/y@7");
        assert!(stale(&own));
        feed_until(&feed, &informer, Input::Added(object("a/x@6")), "6").await;
        assert!(stale(&own), "an earlier write is shown");
        assert!(own.stale(&ObjectKey::new("a", "other"), now()).is_none());
        feed_until(&feed, &informer, Input::Added(object("a/y@7")), "7").await;
        assert!(!stale(&own));
        assert!(own.unseen.lock().keys.is_empty(), "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_bookmark_shows_that_an_object_is_gone_again() {
        let (own, feed, informer) = own(&[]).await;
        wrote(&own, "a/x@6");
        let version = ResourceVersion::new("9");
        let bookmark = Input::Bookmark {
            version,
            ends_initial: false,
        };
        feed_until(&feed, &informer, bookmark, "9").await;
        assert!(!stale(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_object_is_waited_for_until_it_is_gone() {
        let (own, feed, informer) = own(&["a/x@5#one"]).await;
        deleted(&own, "a/x@5#one");
        deleted(&own, "a/unknown@5#one");
        assert!(stale(&own));
        feed_until(&feed, &informer, Input::Deleted(object("a/x@6#one")), "6").await;
        assert!(!stale(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_has_a_deadline_and_a_growing_delay() {
        let (own, _feed, _informer) = own(&[]).await;
        wrote(&own, "a/x@6");
        let delays: Vec<_> = (0..9)
            .map(|_| own.stale(&key(), now()).unwrap().as_millis())
            .collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        tokio::time::advance(DEADLINE).await;
        assert!(!stale(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_informer_can_show_is_not_waited_for() {
        let (own, _feed, _informer) = own(&[]).await;
        let object = object("a/x@6");
        let resource = Resource::namespaced("", "v1", "Secret", "secrets");
        let write = Write {
            resource: &resource,
            key: object.key(),
            uid: object.uid(),
            effect: WriteEffect::Stored(object.version()),
            object: Some(&object),
        };
        own.note(&key(), &write, now());
        assert!(!stale(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_not_reconciled_again_are_forgotten() {
        let (own, feed, informer) = own(&[]).await;
        let object = object("a/x@6");
        let resource = things();
        let note = |index: usize| {
            let write = Write {
                resource: &resource,
                key: object.key(),
                uid: object.uid(),
                effect: WriteEffect::Stored(object.version()),
                object: Some(&object),
            };
            own.note(&ObjectKey::new("a", &format!("owner-{index}")), &write, now());
        };
        (0..FEW_KEYS - 1).for_each(note);
        assert_eq!(own.unseen.lock().keys.len(), FEW_KEYS - 1);
        feed_until(&feed, &informer, Input::Added(object.clone()), "6").await;
        note(FEW_KEYS);
        assert!(own.unseen.lock().keys.is_empty());
    }
}
