//! The seats of a server, and which requests sit on them: plain data, no clock, no waiting.
//!
//! Every limited priority level has a nominal number of seats. Some of them it lends while it does not need them; the
//! others are always kept for it. A level may also borrow what others lend, up to its own limit. Seats on loan come back
//! as the requests on them end: as long as a level with requests waiting has fewer seats than are its own, nobody
//! borrows.
//!
//! ```text
//!   level   nominal   kept   uses        the server has 10 + 4 = 14 seats
//!   high       10       6      1         6 of high's are kept, though it uses 1
//!   low         4       4      8         it borrows 4, which is all that high lends
//!   high: a second request sits down at once; its seventh waits until low gives one back, and is next then
//! ```
//!
//! kube-apiserver computes loans every ten seconds from the demand it saw; here a seat is lent when it is asked for.

use super::fair_queues::{FairQueues, Waiting};
use super::retry_after::RetryAfter;
use super::shuffle_shard::hand;

/// The most requests that wait, in all levels; more are rejected, whatever the levels allow.
pub(super) const MAX_WAITING: usize = 16_384;

/// How requests of a level wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queuing {
    pub queues: u32,
    /// How many of the queues a flow may use.
    pub hand_size: u32,
    /// A queue that has so many requests takes no more.
    pub length_limit: usize,
}

/// The seats of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub nominal: u32,
    /// Those of the nominal ones that nobody borrows.
    pub kept: u32,
    /// With what may be borrowed.
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

/// A request that sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    slot: usize,
    queue: Option<u32>,
    pub seats: u32,
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    slot: usize,
    queue: u32,
    id: u64,
}

/// What becomes of a request that arrives.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Runs(Running),
    Waits(Place),
    Rejected(Rejection),
    /// The level is gone: the request must be classified again.
    Stale,
}

/// Why a request neither runs nor waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// Its level has no queues, or never a seat.
    ConcurrencyLimit,
    QueueFull,
}

/// Requests that waited and may run now.
pub(super) type Granted<W> = Vec<(W, Running)>;

/// How busy a level is.
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
    /// Empty if nobody has the slot.
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
    /// Seats that nobody else can have: of every level those in use, or those kept for it if these are more.
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
    /// Puts these levels in place of those there were. Levels of the same name keep their requests; those that are gone
    /// get no more, and have nothing but loans for the ones they have. `spare` are seats of no level, to be lent.
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

    /// Lets a request run, wait, or neither. `flow` is a hash of whom it should be fair to. Others may be granted their
    /// seats because of it.
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

    /// Takes a request from its seats after that many seconds.
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

    /// Lets a request wait no longer. False if it does not wait any more: then it was granted its seats.
    pub(super) fn leave(&mut self, place: Place, granted: &mut Granted<W>) -> bool {
        let was_waiting = self.slots[place.slot].queues.remove(place.queue, place.id);
        if was_waiting {
            self.waiting -= 1;
            self.dispatch(granted);
        }
        was_waiting
    }

    /// Counts a rejected request; returns the seconds its client should stay away.
    pub(super) fn retry_after(&mut self, level: LevelId, now: u64) -> u64 {
        let slot = self.slots.get_mut(level.slot);
        slot.map_or(1, |slot| slot.retry_after.rejected(now))
    }

    /// The most seats a request of a level may take: a small part of the level's, so that one request never has it all.
    pub(super) fn widest(&self, level: LevelId) -> u32 {
        const PART: u32 = 7;
        self.slots
            .get(level.slot)
            .map_or(1, |slot| (slot.limits.nominal / PART).max(1))
    }

    /// All levels that have a name.
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

    /// Starts requests that wait as long as one fits.
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

    /// The level whose next request sits down: one that has fewer seats than are its own, or else one that borrows; of
    /// these the one that uses the smallest part of its own.
    fn next_level(&self) -> Option<usize> {
        let borrows = self.owner_waits();
        let candidates = (0..self.slots.len()).filter(|slot| {
            let head = self.head(*slot);
            head.is_some_and(|width| self.is_own(*slot, width) == borrows && self.fits(*slot, width))
        });
        candidates.min_by(|a, b| self.used_part(*a).total_cmp(&self.used_part(*b)))
    }

    /// The seats that the next waiting request of a level takes.
    fn head(&self, slot: usize) -> Option<u32> {
        let (_, seats) = self.slots[slot].queues.next()?;
        Some(self.width(slot, seats))
    }

    /// The seats that a request of a level gets: never more than are the level's own, which it can always have.
    fn width(&self, slot: usize, seats: u32) -> u32 {
        seats.clamp(1, self.slots[slot].limits.nominal.max(1))
    }

    /// True if a request waits whose level has the right to its seats, lent though they may be.
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
