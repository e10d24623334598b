//! The reflector: feeds a store from watchers.
//!
//! Takes the events of one watcher, or of one per namespace, and returns batches of changes; the store shows each
//! batch before it is returned. A failing watcher does not delay the others. An object that cannot be decoded keeps
//! its last known state and counts as a failure until it can.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::poll_fn;
use watchkeeper_wire::Object;

use crate::delta::Delta;
use crate::store::{Snapshot, Store, Writer};
use crate::watcher::{Config, Event, Failure, Source, Watcher};

/// The largest number of events in a batch, so that readers do not wait for a long burst.
pub const MAX_BATCH: usize = 1000;

/// The largest number of undecodable objects remembered by name. Beyond it, only the fact is kept that lists cannot
/// infer deletes.
const MAX_UNREAD: usize = 100;

/// A source of objects.
pub type ObjectSource = dyn Source<Object = Object>;

/// Keeps a store in sync with a server.
#[derive(Debug)]
pub struct Reflector {
    watchers: Vec<Watcher<ObjectSource>>,
    writer: Writer,
    /// The watcher to poll first, so that a busy one does not starve the others.
    turn: usize,
    /// The current failures of each watcher.
    troubles: Vec<Trouble>,
}

/// The current failures of one watcher.
#[derive(Debug, Default)]
struct Trouble {
    /// Its failure, until it is heard again.
    failing: Option<Failure>,
    /// The undecodable objects, until they can be decoded.
    unread: Vec<Failure>,
}

/// Changes that are in the store.
#[derive(Debug)]
pub struct Batch {
    /// The changes in order.
    pub deltas: Vec<Delta>,
    /// Failures that are being retried, each with the index of its watcher.
    pub failures: Vec<(usize, Failure)>,
    /// The number of events received; bookmarks count, failures do not.
    pub events: usize,
    /// The state before these changes. The state after them is in the store.
    pub before: Arc<Snapshot>,
}

impl Reflector {
    /// Feeds a store from sources: one per part of its writer, in the same order.
    pub fn new(sources: Vec<Arc<ObjectSource>>, writer: Writer, config: Config) -> Self {
        debug_assert_eq!(sources.len(), writer.parts());
        for source in &sources {
            tracing::debug!(v = 3, resource = %source.name(), "Starting reflector");
        }
        let troubles = sources.iter().map(|_| Trouble::default()).collect();
        let watchers = sources.into_iter().map(|source| Watcher::new(source, config));
        Self {
            watchers: watchers.collect(),
            writer,
            turn: 0,
            troubles,
        }
    }

    /// The store.
    pub fn store(&self) -> Store {
        self.writer.reader()
    }

    /// The current failure: that of a watcher or, if all watchers work, an undecodable object.
    pub fn failing(&self) -> Option<&Failure> {
        let failing = self.troubles.iter().find_map(|trouble| trouble.failing.as_ref());
        failing.or_else(|| self.troubles.iter().find_map(|trouble| trouble.unread.first()))
    }

    /// Waits for events and applies them to the store. `None` once no watcher is left.
    ///
    /// Cancel safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Batch> {
        let first = self.receive().await?;
        let mut batch = Batch {
            deltas: Vec::new(),
            failures: Vec::new(),
            events: 0,
            before: self.writer.reader().snapshot(),
        };
        self.take(first, &mut batch);
        while batch.events < MAX_BATCH
            && let Some(Some(more)) = self.receive().now_or_never()
        {
            self.take(more, &mut batch);
        }
        if batch.events > 0 {
            self.writer.publish();
        }
        Some(batch)
    }

    fn take(&mut self, (part, received): Received, batch: &mut Batch) {
        match received {
            Ok(event) => {
                batch.events += 1;
                self.troubles[part].heard(&event);
                self.writer.apply(part, event, &mut batch.deltas);
            }
            Err(failure) => {
                if let Some(object) = failure.unread() {
                    self.writer.unread(part, object.key.clone());
                }
                self.troubles[part].failed(failure.clone());
                batch.failures.push((part, failure));
            }
        }
    }

    /// The next result of any watcher.
    async fn receive(&mut self) -> Option<Received> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Received>> {
        let count = self.watchers.len();
        let mut ended = 0;
        for step in 0..count {
            let part = (self.turn + step) % count;
            match self.watchers[part].poll_next_event(context) {
                Poll::Ready(Some(received)) => {
                    self.turn = (part + 1) % count;
                    return Poll::Ready(Some((part, received)));
                }
                Poll::Ready(None) => ended += 1,
                Poll::Pending => {}
            }
        }
        if ended == count {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

impl Trouble {
    fn failed(&mut self, failure: Failure) {
        let Some(object) = failure.unread() else {
            self.failing = Some(failure);
            return;
        };
        if let Some(key) = &object.key {
            self.forget(key.namespace(), key.name());
        }
        if self.unread.len() < MAX_UNREAD {
            self.unread.push(failure);
        }
    }

    /// A new list reports undecodable objects again; any object that arrives was decoded.
    fn heard(&mut self, event: &Event<Object>) {
        self.failing = None;
        match event {
            _ if self.unread.is_empty() => {}
            Event::Init => self.unread.clear(),
            Event::InitApply(object)
            | Event::Added(object)
            | Event::Modified(object)
            | Event::Deleted(object) => {
                self.forget(object.namespace(), object.name());
            }
            Event::InitDone(_) | Event::Progress(_) => {}
        }
    }

    fn forget(&mut self, namespace: &str, name: &str) {
        self.unread.retain(|failure| {
            let key = failure.unread().and_then(|object| object.key.as_ref());
            key.is_none_or(|key| (key.namespace(), key.name()) != (namespace, name))
        });
    }
}

type Received = (usize, Result<Event<Object>, Failure>);
