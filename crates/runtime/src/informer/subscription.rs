//! One subscriber's view of an informer: what is there, then what changes, in order and at its own pace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use watchkeeper_wire::Object;

use super::mailbox::Taken;
use super::{Inner, Post};
use crate::delta::{Cause, Delta};
use crate::store::Walk;

/// As many changes wait for a subscriber at most; beyond that it is told the difference once it has caught up.
pub const DEFAULT_CAPACITY: usize = 4096;

/// 1 s, as client-go: a shorter time between resyncs is raised to this.
pub const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// A year: whoever asks for a longer time between resyncs means never.
const LONGEST_RESYNC: Duration = Duration::from_secs(86_400 * 365);

/// What a subscriber is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An object has come, changed or gone.
    Change(Delta),
    /// Everything told so far is the complete first list, or what was there at the time of subscribing.
    Synced,
}

/// How often a subscriber is told every object again, as [`Cause::Resync`]; up to a tenth earlier or later, so that
/// subscribers do not all do it at once. A resync never talks to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resync {
    /// As often as the informer's options say, or those of the factory it comes from.
    #[default]
    Inherited,
    /// Never.
    Never,
    /// About this often, but not more often than [`SHORTEST_RESYNC`].
    Every(Duration),
}

impl Resync {
    /// The time between two resyncs, for a subscriber of an informer with this default.
    pub(super) fn period(self, inherited: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Inherited => inherited,
            Self::Never => None,
            Self::Every(period) => Some(period),
        }
    }
}

/// Decides which objects a subscriber is told about.
pub type Filter = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// What a subscriber wants.
#[derive(Clone)]
pub struct SubscribeOptions {
    /// How many changes may wait. When more come, the subscriber is told only what has changed in sum once it has
    /// caught up: memory stays bounded, no object is missed, and nobody else is held up.
    pub capacity: usize,
    /// Tell every object again now and then.
    pub resync: Resync,
    /// Only objects for which this holds. One that begins to satisfy it is told as added, one that ceases to as
    /// deleted.
    pub filter: Option<Filter>,
    /// Tell an object that was recreated under the same name as deleted and added, not as updated.
    pub split_recreated: bool,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self {
            capacity: DEFAULT_CAPACITY,
            resync: Resync::default(),
            filter: None,
            split_recreated: false,
        }
    }
}

impl fmt::Debug for SubscribeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscribeOptions")
            .field("capacity", &self.capacity)
            .field("resync", &self.resync)
            .field("filtered", &self.filter.is_some())
            .finish_non_exhaustive()
    }
}

/// A subscriber. Dropping it unsubscribes.
pub struct Subscription {
    /// Keeps the informer running.
    informer: Arc<Inner>,
    post: Arc<Post>,
    options: SubscribeOptions,
    replay: Option<(Walk, Cause)>,
    /// The second half of a change that was told in two.
    second: Option<Delta>,
    resync_at: Option<Instant>,
}

/// Why a subscriber looks again.
#[derive(PartialEq, Eq)]
enum Woken {
    Posted,
    Resync,
}

impl Subscription {
    pub(super) fn new(informer: Arc<Inner>, post: Arc<Post>, walk: Walk, options: SubscribeOptions) -> Self {
        let mut subscription = Self {
            informer,
            post,
            options,
            replay: Some((walk, Cause::Initial)),
            second: None,
            resync_at: None,
        };
        subscription.schedule_resync();
        subscription
    }

    /// The next notice; `None` once the informer has stopped and everything was told.
    ///
    /// May be dropped at any await without losing a notice.
    pub async fn next(&mut self) -> Option<Notice> {
        // There may be a hundred thousand notices without a wait between them: others want to run, too.
        tokio::task::consume_budget().await;
        loop {
            if let Some(delta) = self.second.take() {
                return Some(Notice::Change(delta));
            }
            if let Some(notice) = self.replayed() {
                return Some(notice);
            }
            let taken = self.post.mailbox.lock().take(|| self.informer.store.snapshot());
            match taken {
                Taken::FirstList(state) => {
                    self.replay = Some((Walk::new(state), Cause::Initial));
                    continue;
                }
                Taken::Notice(Notice::Synced) => return Some(Notice::Synced),
                Taken::Notice(Notice::Change(delta)) => {
                    if let Some(delta) = self.prepare(delta) {
                        return Some(Notice::Change(delta));
                    }
                    continue;
                }
                Taken::Closed => return None,
                Taken::Empty => {}
            }
            if self.wait().await == Woken::Resync {
                self.begin_resync();
            }
        }
    }

    /// How many changes wait to be taken.
    pub fn backlog(&self) -> usize {
        self.post.mailbox.lock().len()
    }

    /// How many changes were told in sum instead of one by one, because the subscriber was too slow.
    pub fn coalesced(&self) -> u64 {
        self.post.mailbox.lock().coalesced()
    }

    /// Waits for a letter or for the next resync. A letter that comes first is not missed: it leaves a permit.
    async fn wait(&self) -> Woken {
        let posted = self.post.arrived.notified();
        let Some(at) = self.resync_at else {
            posted.await;
            return Woken::Posted;
        };
        tokio::select! {
            () = posted => Woken::Posted,
            () = tokio::time::sleep_until(at) => Woken::Resync,
        }
    }

    /// The next object of what was there at the time of subscribing, or of a resync.
    fn replayed(&mut self) -> Option<Notice> {
        while let Some((walk, cause)) = &mut self.replay {
            let cause = *cause;
            let Some(object) = walk.next() else {
                let told_all = cause == Cause::Initial && walk.snapshot().is_synced();
                self.replay = None;
                return told_all.then_some(Notice::Synced);
            };
            if self.wants(&object) {
                return Some(Notice::Change(match cause {
                    Cause::Resync => Delta::Updated {
                        old: object.clone(),
                        new: object,
                        cause,
                    },
                    _ => Delta::Added { object, cause },
                }));
            }
        }
        None
    }

    /// Time for a resync. It waits until the subscriber was told all that the store shows: news go first.
    fn begin_resync(&mut self) {
        let snapshot = self.informer.store.snapshot();
        if !self.post.mailbox.lock().has_told(&snapshot) {
            self.resync_at = Some(Instant::now());
            return;
        }
        tracing::debug!(v = 4, resource = %self.informer.name, "Forcing resync");
        self.replay = Some((Walk::new(snapshot), Cause::Resync));
        self.schedule_resync();
    }

    fn schedule_resync(&mut self) {
        self.resync_at = self.options.resync.period(self.informer.resync).map(|period| {
            let chance = 0.9 + 0.2 * fastrand::f64();
            let period = period.clamp(SHORTEST_RESYNC, LONGEST_RESYNC);
            Instant::now() + period.mul_f64(chance)
        });
    }

    fn wants(&self, object: &Object) -> bool {
        self.options.filter.as_ref().is_none_or(|filter| filter(object))
    }

    fn prepare(&mut self, delta: Delta) -> Option<Delta> {
        let (first, second) = match self.options.split_recreated {
            true => delta.split_recreated(),
            false => (delta, None),
        };
        let first = self.filtered(first);
        self.second = second.and_then(|second| self.filtered(second));
        first.or_else(|| self.second.take())
    }

    /// The change as it looks to someone who sees only the objects that satisfy the filter.
    fn filtered(&self, delta: Delta) -> Option<Delta> {
        match delta {
            Delta::Added { ref object, .. } => self.wants(object).then_some(delta),
            Delta::Deleted { ref old, .. } => self.wants(old).then_some(delta),
            Delta::Updated { old, new, cause } => match (self.wants(&old), self.wants(&new)) {
                (true, true) => Some(Delta::Updated { old, new, cause }),
                (false, true) => Some(Delta::Added { object: new, cause }),
                (true, false) => Some(Delta::Deleted {
                    old: old.clone(),
                    last: old,
                    final_state: false,
                    cause,
                }),
                (false, false) => None,
            },
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.informer.unsubscribe(&self.post);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("backlog", &self.backlog())
            .finish_non_exhaustive()
    }
}
