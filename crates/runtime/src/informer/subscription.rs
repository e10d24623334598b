//! One subscriber's view of an informer: what is there, then what changes, in order and at its own pace.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_util::future::poll_fn;
use tokio::task::coop;
use tokio::time::Sleep;
use watchkeeper_wire::Object;

use super::mailbox::Taken;
use super::{Inner, Post};
use crate::delta::{Cause, Delta};
use crate::store::{Store, Walk};
use crate::view::{LastRead, Untyped, View};

/// As many changes wait for a subscriber at most; beyond that it is told the difference once it has caught up.
pub const DEFAULT_CAPACITY: usize = 4096;

/// 1 s, as client-go: a shorter time between resyncs is raised to this.
pub const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// A year: whoever asks for a longer time between resyncs means never.
const LONGEST_RESYNC: Duration = Duration::from_secs(86_400 * 365);

/// What a subscriber is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice<T = Object> {
    /// An object has come, changed or gone.
    Change(Delta<T>),
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

/// A subscriber: a [`Stream`] of notices. Dropping it unsubscribes.
///
/// A subscriber of a kind is told of the objects that decode. One that ceases to stays as it was told, until it can be
/// read again or is gone.
pub struct Subscription<K: View = Untyped> {
    changes: Changes,
    store: Store<K>,
    last_read: LastRead<K>,
}

impl<K: View> Subscription<K> {
    pub(super) fn new(changes: Changes, store: Store<K>) -> Self {
        Self {
            changes,
            store,
            last_read: LastRead::<K>::default(),
        }
    }

    /// The next notice; `None` once the informer has stopped and everything was told.
    ///
    /// May be dropped at any await without losing a notice.
    pub async fn next(&mut self) -> Option<Notice<K::Handle>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// How many changes wait to be taken.
    pub fn backlog(&self) -> usize {
        self.changes.post.mailbox.lock().len()
    }

    /// How many changes were told in sum instead of one by one, because the subscriber was too slow.
    pub fn coalesced(&self) -> u64 {
        self.changes.post.mailbox.lock().coalesced()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notice<K::Handle>>> {
        loop {
            let delta = match ready!(self.changes.poll(cx)) {
                None => return Poll::Ready(None),
                Some(Notice::Synced) => return Poll::Ready(Some(Notice::Synced)),
                Some(Notice::Change(delta)) => delta,
            };
            if let Some(delta) = self.store.translate(delta, &mut self.last_read) {
                return Poll::Ready(Some(Notice::Change(delta)));
            }
        }
    }
}

/// It holds nothing that must stay where it is.
impl<K: View> Unpin for Subscription<K> {}

impl<K: View> Stream for Subscription<K> {
    type Item = Notice<K::Handle>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

/// What a subscriber is told, its objects as they are.
pub(super) struct Changes {
    /// Keeps the informer running.
    informer: Arc<Inner>,
    post: Arc<Post>,
    options: SubscribeOptions,
    replay: Option<(Walk, Cause)>,
    /// The second half of a change that was told in two.
    second: Option<Delta>,
    resync_at: Option<Pin<Box<Sleep>>>,
}

impl Changes {
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

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        // There may be a hundred thousand notices without a wait between them: others want to run, too.
        let budget = ready!(coop::poll_proceed(cx));
        let notice = ready!(self.poll_notice(cx));
        budget.made_progress();
        Poll::Ready(notice)
    }

    fn poll_notice(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        loop {
            if let Some(delta) = self.second.take() {
                return Poll::Ready(Some(Notice::Change(delta)));
            }
            if let Some(notice) = self.replayed() {
                return Poll::Ready(Some(notice));
            }
            match self.poll_mailbox(cx) {
                Poll::Ready(Taken::FirstList(state)) => {
                    self.replay = Some((Walk::new(state), Cause::Initial));
                }
                Poll::Ready(Taken::Notice(Notice::Synced)) => return Poll::Ready(Some(Notice::Synced)),
                Poll::Ready(Taken::Notice(Notice::Change(delta))) => {
                    if let Some(delta) = self.prepare(delta) {
                        return Poll::Ready(Some(Notice::Change(delta)));
                    }
                }
                Poll::Ready(Taken::Closed) => return Poll::Ready(None),
                Poll::Ready(Taken::Empty) | Poll::Pending => {
                    let Some(resync) = &mut self.resync_at else {
                        return Poll::Pending;
                    };
                    ready!(resync.as_mut().poll(cx));
                    if !self.begin_resync() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// What has come. Whoever finds nothing is woken by the next letter, and looks once more before it waits: one may
    /// have come meanwhile.
    fn poll_mailbox(&self, cx: &mut Context<'_>) -> Poll<Taken> {
        let take = || self.post.mailbox.lock().take(|| self.informer.store.snapshot());
        match take() {
            Taken::Empty => self.post.arrived.register(cx.waker()),
            taken => return Poll::Ready(taken),
        }
        match take() {
            Taken::Empty => Poll::Pending,
            taken => Poll::Ready(taken),
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

    /// Time for a resync. False while the store shows what the subscriber was not told yet: news go first, and a
    /// letter is on its way.
    fn begin_resync(&mut self) -> bool {
        let snapshot = self.informer.store.snapshot();
        if !self.post.mailbox.lock().has_told(&snapshot) {
            return false;
        }
        tracing::debug!(v = 4, resource = %self.informer.name, "Forcing resync");
        self.replay = Some((Walk::new(snapshot), Cause::Resync));
        self.schedule_resync();
        true
    }

    fn schedule_resync(&mut self) {
        self.resync_at = self.options.resync.period(self.informer.resync).map(|period| {
            let chance = 0.9 + 0.2 * fastrand::f64();
            let period = period.clamp(SHORTEST_RESYNC, LONGEST_RESYNC);
            Box::pin(tokio::time::sleep(period.mul_f64(chance)))
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

impl Drop for Changes {
    fn drop(&mut self) {
        self.informer.unsubscribe(&self.post);
    }
}

impl<K: View> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("backlog", &self.backlog())
            .finish_non_exhaustive()
    }
}
