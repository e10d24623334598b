//! A subscription: the existing objects, then the changes, in order and at the subscriber's own pace.

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

/// The default capacity of a subscriber's queue; beyond it, changes are coalesced.
pub const DEFAULT_CAPACITY: usize = 4096;

/// The shortest resync interval, as in client-go; shorter ones are raised to it.
pub const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// A year: a longer resync interval means never.
const LONGEST_RESYNC: Duration = Duration::from_secs(86_400 * 365);

/// A notice to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice<T = Object> {
    /// An object was added, updated or deleted.
    Change(Delta<T>),
    /// All objects of the first list, or that existed when the subscription started, have been delivered.
    Synced,
}

/// The interval at which a subscriber receives every object again, with [`Cause::Resync`]. Each interval varies by up
/// to a tenth, so that subscribers do not resync together. A resync never talks to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resync {
    /// The interval of the informer's options, or of its factory.
    #[default]
    Inherited,
    /// Never.
    Never,
    /// About this often, but not below [`SHORTEST_RESYNC`].
    Every(Duration),
}

impl Resync {
    /// The interval, for a subscriber of an informer with this default.
    pub(super) fn period(self, inherited: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Inherited => inherited,
            Self::Never => None,
            Self::Every(period) => Some(period),
        }
    }
}

/// Selects the objects a subscriber receives.
pub type Filter = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// Options of a subscription.
#[derive(Clone)]
pub struct SubscribeOptions {
    /// The number of changes that may be queued. Beyond it, the subscriber receives the coalesced difference once it
    /// has caught up: memory stays bounded, no object is missed, and nobody else is delayed.
    pub capacity: usize,
    /// The resync interval.
    pub resync: Resync,
    /// Only objects that match. One that starts to match is reported as added, one that no longer matches as deleted.
    pub filter: Option<Filter>,
    /// Report an object that was recreated under the same name as deleted and added, not as updated.
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
/// A typed subscriber receives the objects that decode. For an object that no longer decodes it receives nothing
/// until the object decodes again or is deleted.
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

    /// The next notice; `None` once the informer has stopped and everything was delivered.
    ///
    /// Cancel safe: dropping the future loses no notice.
    pub async fn next(&mut self) -> Option<Notice<K::Handle>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The number of queued changes.
    pub fn backlog(&self) -> usize {
        self.changes.post.mailbox.lock().len()
    }

    /// The number of changes that were coalesced because the subscriber was too slow.
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

/// Nothing in it is pinned.
impl<K: View> Unpin for Subscription<K> {}

impl<K: View> Stream for Subscription<K> {
    type Item = Notice<K::Handle>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

/// The undecoded changes of a subscriber.
pub(super) struct Changes {
    /// Keeps the informer running.
    informer: Arc<Inner>,
    post: Arc<Post>,
    options: SubscribeOptions,
    replay: Option<(Walk, Cause)>,
    /// The second half of a change that was split.
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
        // A hundred thousand notices may be ready at once: yield to other tasks.
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

    /// The next item of the mailbox. After registering the waker it checks again, because a notice may have arrived
    /// meanwhile.
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

    /// The next object of the initial state, or of a resync.
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

    /// Starts a resync. Returns false while the store shows changes not yet delivered: they go first.
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

    /// The change as seen through the filter.
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
