//! The schedule against an oracle that searches a plain list, with random histories.

use proptest::prelude::*;

use super::*;

/// The specification of the schedule, as simple as possible.
#[derive(Default)]
struct Oracle {
    keys: Vec<Known>,
    turn: u64,
    passed_over: u32,
    shut_down: bool,
}

#[derive(Clone, Debug)]
struct Known {
    key: u8,
    priority: i32,
    turn: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Delayed(u64),
    Ready,
    Running { again: Option<(Option<u64>, i32)> },
}

impl Oracle {
    fn add(&mut self, key: u8, due: Option<u64>, priority: i32) {
        if self.shut_down {
            return;
        }
        self.turn += 1;
        let turn = self.turn;
        let fresh = due.map_or(Place::Ready, Place::Delayed);
        let Some(known) = self.keys.iter_mut().find(|known| known.key == key) else {
            self.keys.push(Known {
                key,
                priority,
                turn,
                place: fresh,
            });
            return;
        };
        match known.place {
            Place::Running { again } => {
                let (at, before) = again.unwrap_or((due, priority));
                let at = at.zip(due).map(|(a, b)| a.min(b));
                known.place = Place::Running {
                    again: Some((at, before.max(priority))),
                };
            }
            Place::Ready if priority > known.priority => (known.priority, known.turn) = (priority, turn),
            Place::Ready => {}
            Place::Delayed(at) => {
                known.priority = known.priority.max(priority);
                if due.is_none_or(|due| due < at) {
                    (known.place, known.turn) = (fresh, turn);
                }
            }
        }
    }

    fn promote(&mut self, now: u64) {
        let mut due: Vec<_> = self.keys.iter_mut().collect();
        due.sort_by_key(|known| (known.due(), known.turn));
        for known in due {
            if known.due().is_some_and(|at| at <= now) {
                self.turn += 1;
                (known.place, known.turn) = (Place::Ready, self.turn);
            }
        }
    }

    fn take(&mut self) -> Option<u8> {
        let ready = || self.keys.iter().filter(|known| known.place == Place::Ready);
        let top = ready().map(|known| known.priority).max()?;
        let first_of_top = ready().filter(|k| k.priority == top).min_by_key(|k| k.turn)?;
        let oldest_below = ready().filter(|k| k.priority < top).min_by_key(|k| k.turn);
        let (key, passed_over) = match oldest_below {
            None => (first_of_top.key, self.passed_over),
            Some(_) if self.passed_over < MAX_PASSED_OVER => (first_of_top.key, self.passed_over + 1),
            Some(below) => (below.key, 0),
        };
        self.passed_over = passed_over;
        self.find(key).place = Place::Running { again: None };
        Some(key)
    }

    fn done(&mut self, key: u8) {
        let Place::Running { again } = self.find(key).place else {
            panic!("{key} does not run")
        };
        self.turn += 1;
        let turn = self.turn;
        match again {
            None => self.keys.retain(|known| known.key != key),
            Some((Some(_), _)) if self.shut_down => self.keys.retain(|known| known.key != key),
            Some((due, priority)) => {
                let place = due.map_or(Place::Ready, Place::Delayed);
                *self.find(key) = Known {
                    key,
                    priority,
                    turn,
                    place,
                };
            }
        }
    }

    fn shut_down(&mut self) {
        self.shut_down = true;
        self.keys.retain(|known| known.due().is_none());
    }

    fn find(&mut self, key: u8) -> &mut Known {
        self.keys
            .iter_mut()
            .find(|known| known.key == key)
            .expect("known key")
    }

    fn count(&self, is: impl Fn(&Known) -> bool) -> usize {
        self.keys.iter().filter(|known| is(known)).count()
    }
}

impl Known {
    fn due(&self) -> Option<u64> {
        match self.place {
            Place::Delayed(at) => Some(at),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add {
        key: u8,
        after: Option<u64>,
        priority: i32,
    },
    Advance(u64),
    Take,
    Done(usize),
    ShutDown,
}

fn step() -> impl Strategy<Value = Step> {
    let add = (0..8_u8, prop::option::of(0..30_u64), -1..=1_i32);
    prop_oneof![
        8 => add.prop_map(|(key, after, priority)| Step::Add { key, after, priority }),
        3 => (0..20_u64).prop_map(Step::Advance),
        6 => Just(Step::Take),
        5 => (0..8_usize).prop_map(Step::Done),
        1 => Just(Step::ShutDown),
    ]
}

fn check(steps: Vec<Step>) {
    let start = Instant::now();
    let at = |millis: u64| start + Duration::from_millis(millis);
    let (mut schedule, mut oracle) = (Schedule::default(), Oracle::default());
    let mut running: Vec<(u8, u32)> = Vec::new();
    let mut now = 0;
    for step in steps {
        match step {
            Step::Add { key, after, priority } => {
                let due = after.map(|after| now + after);
                schedule.add(key, due.map(at), priority, None);
                oracle.add(key, due, priority);
            }
            Step::Advance(by) => now += by,
            Step::Take => {
                let handed = schedule.take(None);
                assert_eq!(handed.as_ref().map(|handed| handed.key), oracle.take());
                running.extend(handed.map(|handed| (handed.key, handed.slot)));
            }
            Step::Done(which) if !running.is_empty() => {
                let (key, slot) = running.swap_remove(which % running.len());
                schedule.done(slot, None);
                oracle.done(key);
            }
            Step::Done(_) => {}
            Step::ShutDown => {
                schedule.shut_down();
                oracle.shut_down();
            }
        }
        schedule.promote(at(now));
        oracle.promote(now);
        let due = oracle.keys.iter().filter_map(Known::due).min();
        assert_eq!(schedule.next_due(), due.map(at));
        let again = Place::Running { again: None };
        let expected = Counts {
            ready: oracle.count(|known| known.place == Place::Ready),
            delayed: oracle.count(|known| known.due().is_some()),
            running: running.len(),
            rerun: oracle.count(|known| {
                matches!(
                    known.place,
                    Place::Running {
                        again: Some((None, _))
                    }
                ) && known.place != again
            }),
        };
        assert_eq!(schedule.counts(), expected);
        assert_eq!(schedule.by_key.len(), oracle.keys.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn schedule_does_as_the_oracle(steps in prop::collection::vec(step(), 0..120)) {
        check(steps);
    }
}

#[test]
fn cut_delays_do_not_fill_the_heap() {
    let start = Instant::now();
    let mut schedule = Schedule::default();
    for round in (1..10_000_u64).rev() {
        schedule.add("key", Some(start + Duration::from_millis(round)), 0, None);
    }
    assert_eq!(schedule.counts().delayed, 1);
    assert!(schedule.delayed.len() <= SWEEP_AT, "{}", schedule.delayed.len());
}

#[test]
fn low_priorities_get_their_turn() {
    let mut schedule = Schedule::default();
    schedule.add(0, None, -1, None);
    let mut before = 0;
    for urgent in 1.. {
        schedule.add(urgent, None, 1, None);
        let handed = schedule.take(None).expect("something is ready");
        if handed.key == 0 {
            break;
        }
        schedule.done(handed.slot, None);
        before += 1;
    }
    assert_eq!(before, MAX_PASSED_OVER);
}
