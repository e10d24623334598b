//! Concurrency per group of keys, so that one namespace or tenant cannot occupy all workers.
//!
//! A key whose group is full is deferred, and the worker takes another key. When a reconcile of the group ends, its
//! worker takes the next deferred key, first in, first out. A deferred key counts as running: if it changes
//! meanwhile, it is reconciled again.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_meta::ObjectKey;

use crate::queue::Work;

/// The grouping of keys, and the number of concurrent reconciles per group.
#[derive(Clone)]
pub struct KeyGroups {
    of: Arc<dyn Fn(&ObjectKey) -> String + Send + Sync>,
    limit: usize,
}

impl KeyGroups {
    /// At most `limit` concurrent reconciles per group.
    pub fn new(limit: usize, of: impl Fn(&ObjectKey) -> String + Send + Sync + 'static) -> Self {
        Self {
            of: Arc::new(of),
            limit: limit.max(1),
        }
    }

    /// At most `limit` concurrent reconciles per namespace.
    pub fn per_namespace(limit: usize) -> Self {
        Self::new(limit, |key| key.namespace().to_owned())
    }
}

impl fmt::Debug for KeyGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyGroups")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// The groups with running or deferred work.
pub(super) struct Groups {
    rule: KeyGroups,
    busy: Mutex<HashMap<String, Group>>,
}

#[derive(Default)]
struct Group {
    running: usize,
    aside: VecDeque<Work<ObjectKey>>,
}

impl From<KeyGroups> for Groups {
    fn from(rule: KeyGroups) -> Self {
        Self {
            rule,
            busy: Mutex::default(),
        }
    }
}

impl Groups {
    /// The group of a key, and the work if the group has capacity. Otherwise the work is deferred.
    pub(super) fn enter(&self, work: Work<ObjectKey>) -> (String, Option<Work<ObjectKey>>) {
        // A worker must not end with the user's function: keys without a group share one.
        let name = catch_unwind(AssertUnwindSafe(|| (self.rule.of)(work.key()))).unwrap_or_else(|_| {
            tracing::error!(key = %work.key(), "the grouping of keys has panicked");
            String::new()
        });
        let mut busy = self.busy.lock();
        let group = busy.entry(name.clone()).or_default();
        if group.running == self.rule.limit {
            group.aside.push_back(work);
            return (name, None);
        }
        group.running += 1;
        (name, Some(work))
    }

    /// Called when a reconcile of the group ended. Returns the next deferred work, unless the controller is stopping.
    pub(super) fn leave(&self, name: &str, stopped: bool) -> Option<Work<ObjectKey>> {
        let mut busy = self.busy.lock();
        let group = busy.get_mut(name)?;
        let next = group.aside.pop_front().filter(|_| !stopped);
        if next.is_none() {
            group.running -= 1;
            if group.running == 0 {
                busy.remove(name);
            }
        }
        next
    }
}
