//! The reflector: watchers into a store.
//!
//! In flow the events of one watcher, or of one per namespace; out flow batches of changes, each of which the store
//! shows before it is told. A watcher that fails does not hold up the others. An object that cannot be read keeps the
//! state it had, and counts as a failure until it can.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::poll_fn;
use watchkeeper_wire::Object;

use crate::delta::Delta;
use crate::store::{Snapshot, Store, Writer};
use crate::watcher::{Config, Event, Failure, Source, Watcher};

/// As many events are taken together at most, so that readers are not kept waiting behind a long burst.
pub const MAX_BATCH: usize = 1000;

/// As many objects that cannot be read are named at once; of more nothing is noted but that lists may not presume
/// deletes.
const MAX_UNREAD: usize = 100;

/// What a source of a reflector is.
pub type ObjectSource = dyn Source<Object = Object>;

/// Keeps a store in step with a server.
#[derive(Debug)]
pub struct Reflector {
    watchers: Vec<Watcher<ObjectSource>>,
    writer: Writer,
    /// Which watcher is asked first, so that a busy one leaves room for the others.
    turn: usize,
    /// What goes wrong with each watcher.
    troubles: Vec<Trouble>,
}

/// What goes wrong with one watcher.
#[derive(Debug, Default)]
struct Trouble {
    /// What it fails with, until it is heard again.
    failing: Option<Failure>,
    /// The objects that cannot be read, until they can.
    unread: Vec<Failure>,
}

/// What happened, and is in the store.
#[derive(Debug)]
pub struct Batch {
    /// The changes in order.
    pub deltas: Vec<Delta>,
    /// Failures that are being dealt with, each with the number of its watcher.
    pub failures: Vec<(usize, Failure)>,
    /// How many events were received; bookmarks count, failures do not.
    pub events: usize,
    /// The state before these changes. The one after is in the store.
    pub before: Arc<Snapshot>,
}

impl Reflector {
    /// Feeds a store from sources, one for each part of its writer and in the same order.
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

    /// The store that is kept.
    pub fn store(&self) -> Store {
        self.writer.reader()
    }

    /// What goes wrong at present: the failure of a watcher that was not heard since or, if all are heard, an object
    /// that cannot be read.
    pub fn failing(&self) -> Option<&Failure> {
        let failing = self.troubles.iter().find_map(|trouble| trouble.failing.as_ref());
        failing.or_else(|| self.troubles.iter().find_map(|trouble| trouble.unread.first()))
    }

    /// Waits for events and puts them into the store. `None` once no watcher is left.
    ///
    /// May be dropped at any await without losing an event.
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

    /// The next thing from any watcher.
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

    /// A list tells anew what cannot be read; any object that comes was read.
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
