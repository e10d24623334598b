//! The core of the work queue: which key is handed out next.
//!
//! Keys with a due time and a priority go in; keys to work on come out, each to one worker at a time. There is no
//! lock, clock or waker here: the caller passes the time in, and reads the clock only if a key is delayed.
//!
//! A key is queued at most once, in one of three phases:
//!
//! ```text
//!            add, due later               add, due now
//!   (absent) ─────────────▶ Delayed ─────────────▶ Ready ──take──▶ Running ──done──▶ (absent)
//!                              └──── promote ───────▲                  │
//!                                                   └─ added meanwhile ┘
//! ```
//!
//! If a queued key is added again, the earlier due time and the higher priority win. A key that moves (its priority
//! was raised, its delay cancelled) leaves a stale ticket behind, which is recognised by its turn number and skipped.
//! Moving a key is O(1), without a search.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// The number of keys handed out in a row before a waiting key of lower priority gets its turn.
///
/// Without it, a steady stream of urgent keys would starve the others.
pub const MAX_PASSED_OVER: u32 = 16;

/// Stale tickets are swept out of the heap of delayed keys once there are this many and they outnumber the live ones.
const SWEEP_AT: usize = 64;

/// Delayed, ready and running keys.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    slots: Vec<Option<Entry<K>>>,
    free: Vec<u32>,
    by_key: HashTable<Place>,
    hasher: RandomState,
    /// Highest priority first; only levels with tickets.
    levels: Vec<Level>,
    delayed: BinaryHeap<Reverse<Due>>,
    /// Number of the latest ticket; every ticket has its own.
    turn: u64,
    passed_over: u32,
    counts: Counts,
    shut_down: bool,
}

/// The number of keys in each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Waiting for a worker.
    pub(crate) ready: usize,
    /// Waiting for their delay to pass.
    pub(crate) delayed: usize,
    /// Being worked on.
    pub(crate) running: usize,
    /// Being worked on, and to be handed out again afterwards.
    pub(crate) rerun: usize,
}

/// The effect of an [`Schedule::add`], for the caller who wakes workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// One more key can be handed out.
    Ready,
    /// The earliest due time has moved forward: a sleeping worker must reset its timer.
    Sooner,
    /// Nobody has to wake: the key is delayed, running, or was already queued.
    Quiet,
    /// The queue is shut down; the key was not added.
    Refused,
}

/// A key handed out. `slot` goes back to [`Schedule::done`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handed<K> {
    /// The key.
    pub(crate) key: K,
    /// Its entry in the schedule.
    pub(crate) slot: u32,
    /// Its priority, for requeueing.
    pub(crate) priority: i32,
    /// The time it became ready, if the caller passed it.
    pub(crate) ready_since: Option<Instant>,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    tag: Tag,
    /// The valid ticket of this key.
    turn: u64,
    priority: i32,
    phase: Phase,
    /// The time the key became ready or, if it runs, was handed out. Only kept for metrics.
    since: Option<Instant>,
}

/// The slot of a key with part of its hash, so that growing the table reads no entries, which are scattered in
/// memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u32,
    tag: Tag,
}

/// Half of a key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Delayed(Instant),
    Ready,
    Running(Again),
}

/// The adds of a running key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    No,
    Now(i32),
    At(Instant, i32),
}

#[derive(Debug)]
struct Level {
    priority: i32,
    tickets: VecDeque<Ticket>,
}

#[derive(Clone, Copy, Debug)]
struct Ticket {
    slot: u32,
    turn: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    /// Keeps keys of equal due time in the order they were added.
    turn: u64,
    slot: u32,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            hasher: RandomState::default(),
            levels: Vec::new(),
            delayed: BinaryHeap::new(),
            turn: 0,
            passed_over: 0,
            counts: Counts::default(),
            shut_down: false,
        }
    }
}

impl<K: Hash + Eq + Clone> Schedule<K> {
    /// Adds a key, or moves it forward if it is queued already. `due` is the time from which it may be handed out;
    /// `None` is now.
    ///
    /// `now` is kept for [`Handed::ready_since`]; `None` if nobody measures.
    pub(crate) fn add(&mut self, key: K, due: Option<Instant>, priority: i32, now: Option<Instant>) -> Added {
        if self.shut_down {
            return Added::Refused;
        }
        let tag = Tag(self.hasher.hash_one(&key) as u32);
        let slots = &self.slots;
        let is_key = |place: &Place| place.tag == tag && is_key(slots, place.slot, &key);
        match self.by_key.find(tag.hash(), is_key) {
            Some(place) => self.merge(place.slot, due, priority, now),
            None => self.insert(key, tag, due, priority, now),
        }
    }

    /// The earliest due time of a delayed key. While it is `None`, the caller need not read the clock.
    pub(crate) fn next_due(&mut self) -> Option<Instant> {
        while let Some(Reverse(due)) = self.delayed.peek() {
            if self.is_live(due.slot, due.turn) {
                return Some(due.at);
            }
            self.delayed.pop();
        }
        None
    }

    /// Makes due keys ready, the earliest first. Returns their number.
    pub(crate) fn promote(&mut self, now: Instant) -> usize {
        let before = self.counts.ready;
        while self.next_due().is_some_and(|due| due <= now) {
            if let Some(Reverse(due)) = self.delayed.pop() {
                self.counts.delayed -= 1;
                self.make_ready(due.slot, Some(due.at));
            }
        }
        self.counts.ready - before
    }

    /// Hands out the next key: of the highest priority, the one that became ready first.
    pub(crate) fn take(&mut self, now: Option<Instant>) -> Option<Handed<K>> {
        let level = self.pick_level()?;
        let slot = self.levels[level].tickets.pop_front()?.slot;
        self.counts.ready -= 1;
        self.counts.running += 1;
        let entry = self.slots[slot as usize].as_mut()?;
        entry.phase = Phase::Running(Again::No);
        entry.turn = 0;
        let ready_since = std::mem::replace(&mut entry.since, now);
        Some(Handed {
            key: entry.key.clone(),
            slot,
            priority: entry.priority,
            ready_since,
        })
    }

    /// Ends the work on a key: it leaves the queue, or becomes ready again if it was added meanwhile.
    ///
    /// Returns the effect, for waking a worker, and the time the work started.
    pub(crate) fn done(&mut self, slot: u32, now: Option<Instant>) -> (Added, Option<Instant>) {
        let Some(entry) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else {
            return (Added::Quiet, None);
        };
        let Phase::Running(again) = entry.phase else {
            return (Added::Quiet, None);
        };
        let began = entry.since;
        self.counts.running -= 1;
        let added = match again {
            Again::No => self.remove(slot),
            Again::Now(priority) => {
                self.counts.rerun -= 1;
                entry.priority = priority;
                self.make_ready(slot, now)
            }
            Again::At(..) if self.shut_down => self.remove(slot),
            Again::At(due, priority) => {
                entry.priority = priority;
                self.delay(slot, due)
            }
        };
        (added, began)
    }

    /// Accepts no more keys and drops the delayed ones; ready keys, and running keys that were added again, are still
    /// handed out.
    pub(crate) fn shut_down(&mut self) {
        self.shut_down = true;
        while self.next_due().is_some() {
            if let Some(Reverse(due)) = self.delayed.pop() {
                self.counts.delayed -= 1;
                self.remove(due.slot);
            }
        }
    }

    /// True after [`Schedule::shut_down`].
    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// True if nothing will be handed out any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.shut_down && self.counts.ready == 0 && self.counts.rerun == 0
    }

    /// True if the queue was shut down and all work has ended.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_finished() && self.counts.running == 0
    }

    /// The number of keys in each phase. Delayed keys count as delayed until [`Schedule::promote`] has run.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The running time of each running key, if hand-outs were timed.
    pub(crate) fn running_for(&self, now: Instant) -> impl Iterator<Item = Duration> {
        let running = |entry: &&Entry<K>| matches!(entry.phase, Phase::Running(_));
        let entries = self.slots.iter().flatten().filter(running);
        entries.filter_map(move |entry| Some(now.saturating_duration_since(entry.since?)))
    }

    fn insert(
        &mut self,
        key: K,
        tag: Tag,
        due: Option<Instant>,
        priority: i32,
        now: Option<Instant>,
    ) -> Added {
        let entry = Entry {
            key,
            tag,
            turn: 0,
            priority,
            phase: Phase::Ready,
            since: None,
        };
        let slot = self.place(entry);
        self.by_key
            .insert_unique(tag.hash(), Place { slot, tag }, |place| place.tag.hash());
        match due {
            None => self.make_ready(slot, now),
            Some(due) => self.delay(slot, due),
        }
    }

    fn place(&mut self, entry: Entry<K>) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.slots.push(Some(entry));
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// The key is queued already: the earlier time and the higher priority win.
    fn merge(&mut self, slot: u32, due: Option<Instant>, priority: i32, now: Option<Instant>) -> Added {
        let Some(entry) = self.slots[slot as usize].as_mut() else {
            return Added::Quiet;
        };
        let raised = priority > entry.priority;
        match (entry.phase, due) {
            (Phase::Running(again), due) => {
                let next = again.or(due, priority);
                self.counts.rerun +=
                    usize::from(matches!(next, Again::Now(_)) && !matches!(again, Again::Now(_)));
                entry.phase = Phase::Running(next);
                Added::Quiet
            }
            (Phase::Ready, _) if raised => {
                entry.priority = priority;
                self.counts.ready -= 1;
                let since = entry.since;
                self.make_ready(slot, since);
                Added::Quiet
            }
            (Phase::Ready, _) => Added::Quiet,
            (Phase::Delayed(_), None) => {
                entry.priority = entry.priority.max(priority);
                self.counts.delayed -= 1;
                let added = self.make_ready(slot, now);
                self.sweep();
                added
            }
            (Phase::Delayed(at), Some(due)) => {
                entry.priority = entry.priority.max(priority);
                if due >= at {
                    return Added::Quiet;
                }
                self.counts.delayed -= 1;
                let added = self.delay(slot, due);
                self.sweep();
                added
            }
        }
    }

    fn make_ready(&mut self, slot: u32, since: Option<Instant>) -> Added {
        self.turn += 1;
        let turn = self.turn;
        let Some(entry) = self.slots[slot as usize].as_mut() else {
            return Added::Quiet;
        };
        entry.phase = Phase::Ready;
        entry.turn = turn;
        entry.since = since;
        let priority = entry.priority;
        self.level(priority).tickets.push_back(Ticket { slot, turn });
        self.counts.ready += 1;
        Added::Ready
    }

    fn delay(&mut self, slot: u32, at: Instant) -> Added {
        let sooner = self.next_due().is_none_or(|earliest| at < earliest);
        self.turn += 1;
        let turn = self.turn;
        if let Some(entry) = self.slots[slot as usize].as_mut() {
            entry.phase = Phase::Delayed(at);
            entry.turn = turn;
        }
        self.delayed.push(Reverse(Due { at, turn, slot }));
        self.counts.delayed += 1;
        if sooner { Added::Sooner } else { Added::Quiet }
    }

    fn remove(&mut self, slot: u32) -> Added {
        if let Some(entry) = self.slots[slot as usize].take() {
            self.free.push(slot);
            let is_here = |place: &Place| place.slot == slot;
            if let Ok(found) = self.by_key.find_entry(entry.tag.hash(), is_here) {
                found.remove();
            }
        }
        Added::Quiet
    }

    /// The level of a priority, created if it has no tickets yet.
    fn level(&mut self, priority: i32) -> &mut Level {
        let at = self.levels.partition_point(|level| level.priority > priority);
        if self.levels.get(at).is_none_or(|level| level.priority != priority) {
            let tickets = VecDeque::new();
            self.levels.insert(at, Level { priority, tickets });
        }
        &mut self.levels[at]
    }

    /// The level to hand out from, its first ticket live: the highest, or now and then the longest-waiting other one.
    fn pick_level(&mut self) -> Option<usize> {
        self.drop_stale();
        let top = self.levels.iter().position(|level| !level.tickets.is_empty())?;
        let longest_waiting = (top + 1..self.levels.len())
            .filter(|&at| !self.levels[at].tickets.is_empty())
            .min_by_key(|&at| self.levels[at].tickets[0].turn);
        match longest_waiting {
            None => Some(top),
            Some(_) if self.passed_over < MAX_PASSED_OVER => {
                self.passed_over += 1;
                Some(top)
            }
            Some(level) => {
                self.passed_over = 0;
                Some(level)
            }
        }
    }

    /// Drops stale tickets from the front of every level. Empty levels are removed except for the last: it is the
    /// usual one, and its allocation is reused.
    fn drop_stale(&mut self) {
        let mut at = 0;
        while at < self.levels.len() {
            while let Some(&ticket) = self.levels[at].tickets.front()
                && !self.is_live(ticket.slot, ticket.turn)
            {
                self.levels[at].tickets.pop_front();
            }
            if self.levels[at].tickets.is_empty() && self.levels.len() > 1 {
                self.levels.remove(at);
            } else {
                at += 1;
            }
        }
    }

    fn is_live(&self, slot: u32, turn: u64) -> bool {
        let entry = self.slots.get(slot as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| entry.turn == turn)
    }

    /// Keeps the heap proportional to the number of delayed keys, however often delays were cut short.
    fn sweep(&mut self) {
        if self.delayed.len() < SWEEP_AT || self.delayed.len() < 2 * self.counts.delayed {
            return;
        }
        let mut delayed = std::mem::take(&mut self.delayed);
        delayed.retain(|Reverse(due)| self.is_live(due.slot, due.turn));
        self.delayed = delayed;
    }
}

impl Tag {
    /// The hash table uses the highest and the lowest bits.
    fn hash(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

impl Again {
    /// Combines this with another add while the key runs.
    fn or(self, due: Option<Instant>, priority: i32) -> Self {
        match (self, due) {
            (Self::No, None) => Self::Now(priority),
            (Self::No, Some(due)) => Self::At(due, priority),
            (Self::Now(before), _) => Self::Now(before.max(priority)),
            (Self::At(_, before), None) => Self::Now(before.max(priority)),
            (Self::At(at, before), Some(due)) => Self::At(at.min(due), before.max(priority)),
        }
    }
}

fn is_key<K: Eq>(slots: &[Option<Entry<K>>], slot: u32, key: &K) -> bool {
    slots[slot as usize]
        .as_ref()
        .is_some_and(|entry| entry.key == *key)
}

#[cfg(test)]
mod tests;
