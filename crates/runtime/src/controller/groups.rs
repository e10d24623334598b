//! Concurrency per group of keys: one namespace, or one tenant, cannot take all workers.
//!
//! A key whose group is full is set aside, and the worker goes on to others. Whoever ends a reconcile of the group takes
//! the next one that was set aside, first come, first served. A key that is set aside counts as being worked on: what
//! happens to it meanwhile is reconciled afterwards.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_meta::ObjectKey;

use crate::queue::Work;

/// How keys are grouped, and how many reconciles of one group run at once.
#[derive(Clone)]
pub struct KeyGroups {
    of: Arc<dyn Fn(&ObjectKey) -> String + Send + Sync>,
    limit: usize,
}

impl KeyGroups {
    /// At most so many reconciles at once whose keys are in the same group.
    pub fn new(limit: usize, of: impl Fn(&ObjectKey) -> String + Send + Sync + 'static) -> Self {
        Self {
            of: Arc::new(of),
            limit: limit.max(1),
        }
    }

    /// At most so many at once in each namespace.
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

/// The groups that have work.
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
    /// The group of a key, and the work on it if the group has room. Otherwise it is set aside.
    pub(super) fn enter(&self, work: Work<ObjectKey>) -> (String, Option<Work<ObjectKey>>) {
        let name = (self.rule.of)(work.key());
        let mut busy = self.busy.lock();
        let group = busy.entry(name.clone()).or_default();
        if group.running == self.rule.limit {
            group.aside.push_back(work);
            return (name, None);
        }
        group.running += 1;
        (name, Some(work))
    }

    /// A reconcile of the group has ended: the next one, unless no more is to begin.
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
