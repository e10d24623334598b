//! Properties of the seats on random histories: never overused, never idle while a request could run, and no request
//! waits forever.

use super::*;

fn queued(nominal: u32, kept: u32, max: u32) -> Limits {
    Limits {
        nominal,
        kept,
        max,
        queuing: Some(Queuing {
            queues: 8,
            hand_size: 2,
            length_limit: 1_000,
        }),
    }
}

fn named(limits: &[Limits]) -> Vec<(String, Limits)> {
    let names = (0..).map(|number: u32| format!("level-{number}"));
    names.zip(limits.iter().copied()).collect()
}

fn seats(limits: &[Limits]) -> (Seats<u64>, Vec<LevelId>) {
    let mut seats = Seats::default();
    let ids = seats.configure(&named(limits), 0, &mut Vec::new());
    (seats, ids)
}

/// Runs or waits; grants to others are ignored.
fn arrive(seats: &mut Seats<u64>, level: LevelId, flow: u64) -> Arrival {
    let mut granted = Vec::new();
    let arrival = seats.arrive(level, flow, 1, || flow, &mut granted);
    assert!(granted.is_empty());
    arrival
}

fn running(arrival: Arrival) -> Running {
    match arrival {
        Arrival::Runs(running) => running,
        other => panic!("{other:?}"),
    }
}

fn is_waiting(arrival: &Arrival) -> bool {
    matches!(arrival, Arrival::Waits(_))
}

#[test]
fn a_level_borrows_lent_seats_and_returns_them_first() {
    let (mut seats, levels) = seats(&[queued(10, 6, 14), queued(4, 4, 14)]);
    let [high, low] = levels[..] else { panic!() };
    running(arrive(&mut seats, high, 1));
    let mut borrowed: Vec<_> = (0..8).map(|_| running(arrive(&mut seats, low, 2))).collect();
    assert!(
        is_waiting(&arrive(&mut seats, low, 3)),
        "all lent seats are in use"
    );
    for _ in 0..5 {
        running(arrive(&mut seats, high, 4));
    }
    assert!(is_waiting(&arrive(&mut seats, high, 5)), "its own seats are lent");
    let mut granted = Vec::new();
    seats.finish(borrowed.pop().unwrap(), 1.0, &mut granted);
    let [(waiter, _)] = granted[..] else {
        panic!("{granted:?}")
    };
    assert_eq!(waiter, 5, "the owner of a seat goes before a borrower");
}

#[test]
fn a_level_without_queues_rejects_without_affecting_others() {
    let alone = Limits {
        queuing: None,
        ..queued(1, 1, 1)
    };
    let (mut seats, levels) = seats(&[alone, queued(1, 1, 1)]);
    running(arrive(&mut seats, levels[0], 1));
    let rejected = Arrival::Rejected(Rejection::ConcurrencyLimit);
    assert_eq!(arrive(&mut seats, levels[0], 1), rejected);
    running(arrive(&mut seats, levels[1], 1));
}

#[test]
fn a_full_queue_rejects() {
    let mut limits = queued(1, 1, 1);
    limits.queuing = Some(Queuing {
        queues: 1,
        hand_size: 1,
        length_limit: 2,
    });
    let (mut seats, levels) = seats(&[limits]);
    running(arrive(&mut seats, levels[0], 1));
    assert!(is_waiting(&arrive(&mut seats, levels[0], 1)));
    assert!(is_waiting(&arrive(&mut seats, levels[0], 1)));
    let rejected = Arrival::Rejected(Rejection::QueueFull);
    assert_eq!(arrive(&mut seats, levels[0], 1), rejected);
}

#[test]
fn requests_of_a_removed_level_finish() {
    let (mut seats, levels) = seats(&[queued(1, 1, 1), queued(3, 0, 4)]);
    let first = running(arrive(&mut seats, levels[0], 1));
    assert!(is_waiting(&arrive(&mut seats, levels[0], 2)));
    let mut granted = Vec::new();
    let left = named(&[queued(1, 1, 1), queued(3, 0, 4)])[1..].to_vec();
    seats.configure(&left, 0, &mut granted);
    assert_eq!(arrive(&mut seats, levels[0], 1), Arrival::Stale);
    seats.finish(first, 1.0, &mut granted);
    assert_eq!(granted.len(), 1, "{granted:?}");
    seats.finish(granted[0].1, 1.0, &mut Vec::new());
    seats.configure(&left, 0, &mut Vec::new());
    assert_eq!(seats.levels().count(), 1);
}

/// A flood in one flow delays a request of another by at most one round of the busy queues.
#[test]
fn a_quiet_flow_is_not_delayed_by_a_flood() {
    let (mut seats, levels) = seats(&[queued(1, 1, 1)]);
    let mut last = running(arrive(&mut seats, levels[0], 0));
    for _ in 0..100 {
        assert!(is_waiting(&arrive(&mut seats, levels[0], 0)));
    }
    assert!(is_waiting(&arrive(&mut seats, levels[0], 45)));
    let mut before = 0;
    loop {
        let mut granted = Vec::new();
        seats.finish(last, 0.01, &mut granted);
        let [(flow, next)] = granted[..] else {
            panic!("{granted:?}")
        };
        if flow == 45 {
            break;
        }
        last = next;
        before += 1;
    }
    assert!(before <= 2, "{before} went first");
}

/// A history of arrivals, ends, departures and changed levels.
struct History {
    random: fastrand::Rng,
    seats: Seats<u64>,
    limits: Vec<Limits>,
    levels: Vec<LevelId>,
    running: Vec<Running>,
    waiting: Vec<(u64, Place)>,
    next: u64,
    shrunk: bool,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let limits: Vec<_> = (0..random.usize(1..5)).map(|_| any_limits(&mut random)).collect();
        let (seats, levels) = seats(&limits);
        Self {
            random,
            seats,
            limits,
            levels,
            running: Vec::new(),
            waiting: Vec::new(),
            next: 0,
            shrunk: false,
        }
    }

    fn step(&mut self) {
        let mut granted = Vec::new();
        match self.random.u32(..100) {
            ..50 => self.arrive(&mut granted),
            50..85 if !self.running.is_empty() => {
                let ended = self.running.swap_remove(self.random.usize(..self.running.len()));
                self.seats.finish(ended, self.random.f64(), &mut granted);
            }
            85..98 if !self.waiting.is_empty() => {
                let (_, place) = self.waiting.swap_remove(self.random.usize(..self.waiting.len()));
                assert!(self.seats.leave(place, &mut granted), "it waited until now");
            }
            98.. => {
                let changed = self.random.usize(..self.limits.len());
                self.limits[changed] = any_limits(&mut self.random);
                self.levels = self.seats.configure(&named(&self.limits), 0, &mut granted);
                self.shrunk = true;
            }
            _ => {}
        }
        self.take(granted);
        self.check();
    }

    fn arrive(&mut self, granted: &mut Granted<u64>) {
        let level = self.levels[self.random.usize(..self.levels.len())];
        let (flow, width) = (self.random.u64(..6), self.random.u32(1..5));
        let width = width.min(self.seats.widest(level).max(2));
        self.next += 1;
        let id = self.next;
        match self.seats.arrive(level, flow, width, || id, granted) {
            Arrival::Runs(running) => self.running.push(running),
            Arrival::Waits(place) => self.waiting.push((id, place)),
            Arrival::Rejected(_) => {}
            Arrival::Stale => panic!("levels are only changed here"),
        }
    }

    fn take(&mut self, granted: Granted<u64>) {
        for (id, running) in granted {
            let before = self.waiting.len();
            self.waiting.retain(|(waiting, _)| *waiting != id);
            assert_eq!(
                self.waiting.len() + 1,
                before,
                "{id} was granted once, and waited"
            );
            self.running.push(running);
        }
    }

    fn check(&self) {
        let in_use: u32 = self.running.iter().map(|running| running.seats).sum();
        let states: Vec<_> = self.seats.levels().collect();
        assert_eq!(in_use, states.iter().map(|state| state.seats_in_use).sum::<u32>());
        assert_eq!(
            self.waiting.len(),
            states.iter().map(|state| state.waiting).sum::<usize>()
        );
        let total: u32 = self.limits.iter().map(|limits| limits.nominal).sum();
        // Running requests keep their seats, even if there are fewer now.
        if !self.shrunk {
            assert!(in_use <= total, "{in_use} of {total}");
            assert!(
                states.iter().all(|state| state.seats_in_use <= state.limits.max),
                "{states:?}"
            );
        }
        self.check_that_nobody_could_sit(&states, total);
    }

    /// Checks the property independently of the implementation.
    fn check_that_nobody_could_sit(&self, states: &[LevelState], total: u32) {
        let heads: Vec<_> = (0..states.len()).map(|slot| self.seats.head(slot)).collect();
        let is_own = |(state, head): (&LevelState, &Option<u32>)| {
            head.is_some_and(|width| state.seats_in_use + width <= state.limits.nominal)
        };
        let owner_waits = states.iter().zip(&heads).any(is_own);
        for (state, head) in states.iter().zip(&heads) {
            let Some(width) = head else { continue };
            let others = states.iter().filter(|other| other.name != state.name);
            let others: u32 = others
                .map(|other| other.seats_in_use.max(other.limits.kept))
                .sum();
            let after = state.seats_in_use + width;
            let has_room = others + after.max(state.limits.kept) <= total && after <= state.limits.max;
            let may = is_own((state, head)) || !owner_waits;
            assert!(!(has_room && may), "{state:?} has a request that could run");
        }
    }

    /// Every waiting request gets a seat if no new ones arrive.
    fn drain(mut self) {
        while let Some(ended) = self.running.pop() {
            let mut granted = Vec::new();
            self.seats.finish(ended, self.random.f64(), &mut granted);
            self.take(granted);
            self.check();
        }
        let can_run = |limits: &Limits| limits.nominal > 0;
        if self.limits.iter().all(can_run) {
            assert_eq!(self.waiting.len(), 0, "{:?}", self.seats);
        }
    }
}

fn any_limits(random: &mut fastrand::Rng) -> Limits {
    let nominal = random.u32(0..12);
    let kept = random.u32(0..=nominal);
    Limits {
        queuing: queued(0, 0, 0).queuing.filter(|_| random.u32(..5) > 0),
        ..queued(nominal, kept, nominal + random.u32(0..10))
    }
}

#[test]
fn seats_are_never_overused_never_idle_and_never_withheld() {
    for seed in 0..400 {
        let mut history = History::new(seed);
        for _ in 0..200 {
            history.step();
        }
        history.drain();
    }
}
