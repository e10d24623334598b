//! The queues of one priority level: assigns waiting requests and selects the next to run.
//!
//! This is start-time fair queueing. Every queue has a virtual time up to which its work is paid for. A starting
//! request advances it by its seats times its expected duration; when it ends, the actual duration replaces the
//! expected one. The queue with the lowest virtual time is next, so a flow with many or long requests waits for the
//! others, not they for it:
//!
//! ```text
//!   queue 3:  paid up to 0.006   waiting: a4 a5 a6      (two of its requests run)
//!   queue 7:  paid up to 0.000   waiting: b1            ◀ next, although it arrived last
//! ```
//!
//! A queue that becomes busy starts at the level's virtual time: idle time is not saved up. Only busy queues exist,
//! so the number of queues in a level costs nothing.

use std::collections::{HashMap, VecDeque};

/// The expected duration of a request, in seconds, as in kube-apiserver.
const EXPECTED_SECONDS: f64 = 0.003;

/// A waiting request.
#[derive(Debug)]
pub(super) struct Waiting<W> {
    /// The order of arrival.
    pub id: u64,
    pub seats: u32,
    /// Notified when the request may run.
    pub waiter: W,
}

#[derive(Debug)]
struct Queue<W> {
    /// The virtual time at which its next request starts.
    paid_up_to: f64,
    waiting: VecDeque<Waiting<W>>,
    /// The seats of its waiting and running requests.
    seats: u32,
    running: u32,
}

/// The busy queues of one level.
#[derive(Debug)]
pub(super) struct FairQueues<W> {
    virtual_time: f64,
    busy: HashMap<u32, Queue<W>>,
    waiting: usize,
}

impl<W> Default for FairQueues<W> {
    fn default() -> Self {
        Self {
            virtual_time: 0.0,
            busy: HashMap::new(),
            waiting: 0,
        }
    }
}

impl<W> FairQueues<W> {
    /// The number of waiting requests.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The number of waiting requests in a queue.
    pub(super) fn length(&self, queue: u32) -> usize {
        self.busy.get(&queue).map_or(0, |queue| queue.waiting.len())
    }

    /// The queue of a hand with the least work.
    pub(super) fn least_busy(&self, hand: impl Iterator<Item = u32>) -> u32 {
        let work = |queue: &u32| self.busy.get(queue).map_or(0, |queue| queue.seats);
        hand.min_by_key(work).unwrap_or(0)
    }

    /// Adds a waiting request.
    pub(super) fn push(&mut self, queue: u32, request: Waiting<W>) {
        let queue = self.queue(queue);
        queue.seats += request.seats;
        queue.waiting.push_back(request);
        self.waiting += 1;
    }

    /// The queue whose first request runs next, and the seats of that request.
    pub(super) fn next(&self) -> Option<(u32, u32)> {
        let heads = self.busy.iter().filter_map(|(number, queue)| {
            let head = queue.waiting.front()?;
            let done_at = queue.paid_up_to + f64::from(head.seats) * EXPECTED_SECONDS;
            Some((done_at, head.id, *number, head.seats))
        });
        let next = heads.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        Some((next.2, next.3))
    }

    /// Removes the first request of a queue, to start it.
    pub(super) fn pop(&mut self, number: u32) -> Option<Waiting<W>> {
        let queue = self.busy.get_mut(&number)?;
        let request = queue.waiting.pop_front()?;
        queue.seats -= request.seats;
        self.waiting -= 1;
        Some(request)
    }

    /// Records that a request of a queue starts.
    pub(super) fn started(&mut self, number: u32, seats: u32) {
        let queue = self.queue(number);
        let began = queue.paid_up_to;
        queue.paid_up_to += f64::from(seats) * EXPECTED_SECONDS;
        queue.seats += seats;
        queue.running += 1;
        self.virtual_time = self.virtual_time.max(began);
    }

    /// Records that a request of a queue ran for this time.
    pub(super) fn finished(&mut self, number: u32, seats: u32, seconds: f64) {
        if let Some(queue) = self.busy.get_mut(&number) {
            queue.paid_up_to += f64::from(seats) * (seconds - EXPECTED_SECONDS);
            queue.seats -= seats;
            queue.running -= 1;
        }
        self.forget_if_idle(number);
    }

    /// Removes a waiting request. False if it is not in this queue.
    pub(super) fn remove(&mut self, number: u32, id: u64) -> bool {
        let Some(queue) = self.busy.get_mut(&number) else {
            return false;
        };
        let Some(index) = queue.waiting.iter().position(|request| request.id == id) else {
            return false;
        };
        let request = queue.waiting.remove(index);
        queue.seats -= request.map_or(0, |request| request.seats);
        self.waiting -= 1;
        self.forget_if_idle(number);
        true
    }

    fn queue(&mut self, number: u32) -> &mut Queue<W> {
        self.busy.entry(number).or_insert_with(|| Queue {
            paid_up_to: self.virtual_time,
            waiting: VecDeque::new(),
            seats: 0,
            running: 0,
        })
    }

    fn forget_if_idle(&mut self, number: u32) {
        let is_idle = |queue: &Queue<W>| queue.running == 0 && queue.waiting.is_empty();
        if self.busy.get(&number).is_some_and(is_idle) {
            self.busy.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs all waiting requests one after the other, each for this time; returns their order.
    fn drain(queues: &mut FairQueues<&'static str>, seconds: f64) -> Vec<&'static str> {
        let mut order = Vec::new();
        while let Some((number, seats)) = queues.next() {
            let request = queues.pop(number).unwrap();
            queues.started(number, seats);
            queues.finished(number, seats, seconds);
            order.push(request.waiter);
        }
        order
    }

    fn waiting(requests: &[(u32, u32, &'static str)]) -> FairQueues<&'static str> {
        let mut queues = FairQueues::default();
        for (id, &(queue, seats, waiter)) in (0..).zip(requests) {
            queues.push(queue, Waiting { id, seats, waiter });
        }
        queues
    }

    #[test]
    fn queues_take_turns_regardless_of_arrival() {
        let mut queues = waiting(&[
            (1, 1, "a1"),
            (1, 1, "a2"),
            (1, 1, "a3"),
            (2, 1, "b1"),
            (2, 1, "b2"),
        ]);
        assert_eq!(drain(&mut queues, 0.003), ["a1", "b1", "a2", "b2", "a3"]);
        assert_eq!(queues.waiting(), 0);
    }

    #[test]
    fn requests_are_charged_by_their_seats() {
        let mut queues = waiting(&[
            (1, 4, "a1"),
            (1, 4, "a2"),
            (2, 1, "b1"),
            (2, 1, "b2"),
            (2, 1, "b3"),
        ]);
        assert_eq!(drain(&mut queues, 0.003), ["b1", "b2", "b3", "a1", "a2"]);
    }

    #[test]
    fn long_requests_are_charged_when_they_end() {
        let mut queues = waiting(&[(1, 1, "a1"), (1, 1, "a2"), (2, 1, "b1"), (2, 1, "b2")]);
        let (first, seats) = queues.next().unwrap();
        queues.pop(first).unwrap();
        queues.started(first, seats);
        queues.finished(first, seats, 60.0);
        assert_eq!(drain(&mut queues, 0.003), ["b1", "b2", "a2"]);
    }

    #[test]
    fn idle_queues_are_removed() {
        let mut queues = waiting(&[(1, 1, "a"), (2, 1, "b")]);
        assert!(queues.remove(2, 1));
        assert!(!queues.remove(2, 1));
        drain(&mut queues, 1.0);
        assert!(queues.busy.is_empty());
    }
}
