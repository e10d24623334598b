//! The seats of a server and the requests on them: plain data, no clock, no waiting.
//!
//! Every limited priority level has a nominal number of seats. It lends some of them while it does not need them, and
//! keeps the others. A level may borrow what others lend, up to its own limit. Lent seats return when the requests on
//! them end: while a level with waiting requests has fewer seats than its own, nobody borrows.
//!
//! ```text
//!   level   nominal   kept   uses        the server has 10 + 4 = 14 seats
//!   high       10       6      1         keeps 6, although it uses 1
//!   low         4       4      8         borrows 4, all that high lends
//!   high: a second request runs at once; its seventh waits until low returns a seat, and is next
//! ```
//!
//! kube-apiserver computes borrowing every ten seconds from past demand; here a seat is lent when it is needed.

use super::fair_queues::{FairQueues, Waiting};
use super::retry_after::RetryAfter;
use super::shuffle_shard::hand;

/// The limit on waiting requests in all levels; more are rejected, whatever the levels allow.
pub(super) const MAX_WAITING: usize = 16_384;

/// The queuing of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queuing {
    pub queues: u32,
    /// The number of queues a flow may use.
    pub hand_size: u32,
    /// The limit on requests in a queue.
    pub length_limit: usize,
}

/// The seats of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub nominal: u32,
    /// The nominal seats that are never lent.
    pub kept: u32,
    /// The nominal seats plus those that may be borrowed.
    pub max: u32,
    /// `None` if requests do not wait.
    pub queuing: Option<Queuing>,
}

/// A level of [`Seats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelId {
    slot: usize,
    generation: u64,
}

/// A running request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    slot: usize,
    queue: Option<u32>,
    pub seats: u32,
}

/// A waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    slot: usize,
    queue: u32,
    id: u64,
}

/// The result of an arriving request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Runs(Running),
    Waits(Place),
    Rejected(Rejection),
    /// The level was removed: the request must be classified again.
    Stale,
}

/// The reason a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// Its level has no queues, or no seats.
    ConcurrencyLimit,
    QueueFull,
}

/// Requests that waited and may run now.
pub(super) type Granted<W> = Vec<(W, Running)>;

/// The state of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelState {
    pub name: String,
    pub limits: Limits,
    pub seats_in_use: u32,
    pub running: u32,
    pub waiting: usize,
}

#[derive(Debug)]
struct Slot<W> {
    generation: u64,
    /// Empty if the slot is free.
    name: String,
    limits: Limits,
    in_use: u32,
    running: u32,
    queues: FairQueues<W>,
    retry_after: RetryAfter,
}

/// All seats of a server, by level.
#[derive(Debug)]
pub(super) struct Seats<W> {
    slots: Vec<Slot<W>>,
    total: u32,
    /// Seats unavailable to other levels: for each level those in use, or those it keeps if that is more.
    committed: u32,
    waiting: usize,
    last_id: u64,
    generation: u64,
}

impl<W> Default for Seats<W> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            total: 0,
            committed: 0,
            waiting: 0,
            last_id: 0,
            generation: 0,
        }
    }
}

impl<W> Seats<W> {
    /// Replaces the levels. Levels of the same name keep their requests; removed ones get no new requests and borrow
    /// the seats of those they have. `spare` seats belong to no level and are lent.
    pub(super) fn configure(
        &mut self,
        levels: &[(String, Limits)],
        spare: u32,
        granted: &mut Granted<W>,
    ) -> Vec<LevelId> {
        self.generation += 1;
        self.total = levels.iter().map(|(_, limits)| limits.nominal).sum::<u32>() + spare;
        for slot in &mut self.slots {
            let is_kept = levels.iter().any(|(name, _)| *name == slot.name);
            if !is_kept {
                slot.limits = Limits {
                    max: self.total,
                    ..Limits::default()
                };
                slot.generation = self.generation;
            }
            if !is_kept && slot.running == 0 && slot.queues.waiting() == 0 {
                slot.name.clear();
            }
        }
        let ids = levels
            .iter()
            .map(|(name, limits)| self.place(name, *limits))
            .collect();
        let committed = |slot: &Slot<W>| slot.in_use.max(slot.limits.kept);
        self.committed = self.slots.iter().map(committed).sum();
        self.dispatch(granted);
        ids
    }

    /// The slot of a level: its own, a free one, or a new one.
    fn place(&mut self, name: &str, limits: Limits) -> LevelId {
        let of = |wanted: &str| self.slots.iter().position(|slot| slot.name == wanted);
        let slot = of(name).or_else(|| of("")).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(Slot {
                generation: 0,
                name: String::new(),
                limits,
                in_use: 0,
                running: 0,
                queues: FairQueues::default(),
                retry_after: RetryAfter::default(),
            });
        }
        let taken = &mut self.slots[slot];
        if taken.name != name {
            taken.name = name.to_owned();
            taken.generation = self.generation;
            taken.retry_after = RetryAfter::default();
        }
        taken.limits = limits;
        LevelId {
            slot,
            generation: taken.generation,
        }
    }

    /// Starts, queues or rejects a request. `flow` is the hash of its flow. Other requests may be granted seats as a
    /// result.
    pub(super) fn arrive(
        &mut self,
        level: LevelId,
        flow: u64,
        seats: u32,
        waiter: impl FnOnce() -> W,
        granted: &mut Granted<W>,
    ) -> Arrival {
        let slot = level.slot;
        let Some(found) = self
            .slots
            .get(slot)
            .filter(|found| found.generation == level.generation)
        else {
            return Arrival::Stale;
        };
        let limits = found.limits;
        let queue = limits.queuing.map(|queuing| {
            found
                .queues
                .least_busy(hand(flow, queuing.queues, queuing.hand_size))
        });
        let width = self.width(slot, seats);
        if found.queues.waiting() == 0 && self.fits(slot, width) {
            return Arrival::Runs(self.start(slot, queue, width));
        }
        let (Some(queue), Some(queuing)) = (queue, limits.queuing.filter(|_| limits.max > 0)) else {
            return Arrival::Rejected(Rejection::ConcurrencyLimit);
        };
        if found.queues.length(queue) >= queuing.length_limit || self.waiting >= MAX_WAITING {
            return Arrival::Rejected(Rejection::QueueFull);
        }
        self.last_id += 1;
        let id = self.last_id;
        let request = Waiting {
            id,
            seats: width,
            waiter: waiter(),
        };
        self.slots[slot].queues.push(queue, request);
        self.waiting += 1;
        self.dispatch(granted);
        Arrival::Waits(Place { slot, queue, id })
    }

    /// Releases the seats of a request after this many seconds.
    pub(super) fn finish(&mut self, request: Running, seconds: f64, granted: &mut Granted<W>) {
        let in_use = self.slots[request.slot].in_use - request.seats;
        self.set_in_use(request.slot, in_use);
        let slot = &mut self.slots[request.slot];
        slot.running -= 1;
        if let Some(queue) = request.queue {
            slot.queues.finished(queue, request.seats, seconds);
        }
        self.dispatch(granted);
    }

    /// Removes a waiting request. False if it no longer waits: then it was granted its seats.
    pub(super) fn leave(&mut self, place: Place, granted: &mut Granted<W>) -> bool {
        let was_waiting = self.slots[place.slot].queues.remove(place.queue, place.id);
        if was_waiting {
            self.waiting -= 1;
            self.dispatch(granted);
        }
        was_waiting
    }

    /// Counts a rejected request; returns its `Retry-After`.
    pub(super) fn retry_after(&mut self, level: LevelId, now: u64) -> u64 {
        let slot = self.slots.get_mut(level.slot);
        slot.map_or(1, |slot| slot.retry_after.rejected(now))
    }

    /// The limit on seats of one request: a small part of the level's, so that no request takes them all.
    pub(super) fn widest(&self, level: LevelId) -> u32 {
        const PART: u32 = 7;
        self.slots
            .get(level.slot)
            .map_or(1, |slot| (slot.limits.nominal / PART).max(1))
    }

    /// All levels in use.
    pub(super) fn levels(&self) -> impl Iterator<Item = LevelState> {
        let named = self.slots.iter().filter(|slot| !slot.name.is_empty());
        named.map(|slot| LevelState {
            name: slot.name.clone(),
            limits: slot.limits,
            seats_in_use: slot.in_use,
            running: slot.running,
            waiting: slot.queues.waiting(),
        })
    }

    /// Starts waiting requests as long as one fits.
    fn dispatch(&mut self, granted: &mut Granted<W>) {
        while self.waiting > 0
            && let Some(slot) = self.next_level()
        {
            let Some((queue, _)) = self.slots[slot].queues.next() else {
                return;
            };
            let Some(request) = self.slots[slot].queues.pop(queue) else {
                return;
            };
            self.waiting -= 1;
            let width = self.width(slot, request.seats);
            let running = self.start(slot, Some(queue), width);
            granted.push((request.waiter, running));
        }
    }

    /// The level whose next request starts: one below its own seats, else one that borrows; among these, the one that
    /// uses the smallest part of its own.
    fn next_level(&self) -> Option<usize> {
        let borrows = self.owner_waits();
        let candidates = (0..self.slots.len()).filter(|slot| {
            let head = self.head(*slot);
            head.is_some_and(|width| self.is_own(*slot, width) == borrows && self.fits(*slot, width))
        });
        candidates.min_by(|a, b| self.used_part(*a).total_cmp(&self.used_part(*b)))
    }

    /// The seats of a level's next waiting request.
    fn head(&self, slot: usize) -> Option<u32> {
        let (_, seats) = self.slots[slot].queues.next()?;
        Some(self.width(slot, seats))
    }

    /// The seats granted to a request: never more than the level's own, which are always available to it.
    fn width(&self, slot: usize, seats: u32) -> u32 {
        seats.clamp(1, self.slots[slot].limits.nominal.max(1))
    }

    /// True if a request waits whose level is entitled to seats that are lent.
    fn owner_waits(&self) -> bool {
        let is_owner = |slot| self.head(slot).is_some_and(|width| self.is_own(slot, width));
        self.waiting > 0 && (0..self.slots.len()).any(is_owner)
    }

    fn is_own(&self, slot: usize, seats: u32) -> bool {
        self.slots[slot].in_use + seats <= self.slots[slot].limits.nominal
    }

    fn used_part(&self, slot: usize) -> f64 {
        let slot = &self.slots[slot];
        f64::from(slot.in_use) / f64::from(slot.limits.nominal)
    }

    fn fits(&self, slot: usize, seats: u32) -> bool {
        let Limits { kept, max, .. } = self.slots[slot].limits;
        let (before, after) = (self.slots[slot].in_use, self.slots[slot].in_use + seats);
        let committed = self.committed - before.max(kept) + after.max(kept);
        after <= max && committed <= self.total && (self.is_own(slot, seats) || !self.owner_waits())
    }

    fn start(&mut self, slot: usize, queue: Option<u32>, seats: u32) -> Running {
        self.set_in_use(slot, self.slots[slot].in_use + seats);
        self.slots[slot].running += 1;
        if let Some(queue) = queue {
            self.slots[slot].queues.started(queue, seats);
        }
        Running { slot, queue, seats }
    }

    fn set_in_use(&mut self, slot: usize, in_use: u32) {
        let slot = &mut self.slots[slot];
        self.committed -= slot.in_use.max(slot.limits.kept);
        slot.in_use = in_use;
        self.committed += slot.in_use.max(slot.limits.kept);
    }
}

#[cfg(test)]
mod tests;
