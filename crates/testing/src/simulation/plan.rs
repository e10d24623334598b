//! The faults of a run: a list drawn from a seed, printed and parsed as one line of text.
//!
//! ```
//! use watchkeeper_testing::simulation::Plan;
//!
//! let text = "17: crash runner at write 2 for 30s; lose-answer runner at write 3";
//! let plan: Plan = text.parse().unwrap();
//! assert_eq!((plan.seed, plan.faults.len()), (17, 2));
//! assert_eq!(plan.to_string(), text);
//! ```
//!
//! A fault names the process and the point at which it happens: a write, a request or an event of that process,
//! counted from the start of the run, or a second. A list therefore stays meaningful when a fault is removed or moved,
//! which is what shrinking does.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;

/// The faults of one run, and the seed of all other randomness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The seed of names, uids, jitter and the workload's choices.
    pub seed: u64,
    /// Each happens at most once.
    pub faults: Vec<Fault>,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The affected process.
    pub process: String,
    /// The fault and its time.
    pub trouble: Trouble,
}

/// The kinds of fault.
///
/// A process counts its *writes* (those that changed something, heartbeats aside), its *requests* and the *events* of
/// its watches from 1, over all its lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It crashes as soon as this write is stored, before the answer, and is restarted after a while.
    Crash {
        /// The number of the write.
        write: u64,
        /// The time until the restart.
        down: Duration,
    },
    /// The same, and then it meets a stale server: for ten seconds its reads with `resourceVersion=0` return old
    /// state, and its watches are silent.
    CrashStale {
        /// The number of the write.
        write: u64,
        /// The time until the restart.
        down: Duration,
        /// The number of revisions the server lags behind.
        behind: u64,
    },
    /// A write is stored, and the connection breaks before its answer.
    LoseAnswer {
        /// The number of the write.
        write: u64,
    },
    /// The connection breaks before a request is handled.
    Drop {
        /// The number of the request.
        request: u64,
    },
    /// A request is answered with an error.
    Fail {
        /// The number of the request.
        request: u64,
        /// The HTTP status: 429, 500, 503 or 504.
        code: u16,
    },
    /// A request is handled late, so that others overtake it.
    Delay {
        /// The number of the request.
        request: u64,
        /// The delay.
        by: Duration,
    },
    /// A watch breaks off at an event.
    CutWatch {
        /// The number of the event.
        event: u64,
    },
    /// An event and all later ones of its watch are delayed: the process has a stale cache.
    LateEvents {
        /// The number of the event.
        event: u64,
        /// The delay.
        by: Duration,
    },
    /// The process cannot reach the server for a while.
    CutOff {
        /// The start, from the start of the run.
        at: Duration,
        /// The duration.
        lasts: Duration,
        /// True if the server compacts its history meanwhile, so that changes are seen only in a list.
        compacts: bool,
    },
}

/// Options of fault injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultOptions {
    /// The largest number of faults in a run.
    pub most: usize,
    /// The last write, request or event with a fault. Early ones are more likely.
    pub reach: u64,
}

impl Default for FaultOptions {
    fn default() -> Self {
        Self { most: 4, reach: 32 }
    }
}

/// The text is not a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a plan: {0:?}")]
pub struct PlanError(String);

/// The kinds of [`Trouble`], drawn with equal probability, except for crashes, which are three times as likely.
const KINDS: u8 = 12;

impl Plan {
    /// The plan of a seed for these processes.
    pub(super) fn draw(seed: u64, processes: &[&str], options: FaultOptions) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = match processes {
            [] => 0,
            _ => rng.usize(..=options.most),
        };
        let fault = |_| Fault {
            process: processes[rng.usize(..processes.len())].to_owned(),
            trouble: Trouble::draw(&mut rng, options.reach),
        };
        Self {
            seed,
            faults: (0..count).map(fault).collect(),
        }
    }
}

impl Trouble {
    fn draw(rng: &mut Rng, reach: u64) -> Self {
        match rng.u8(..KINDS) {
            0..3 => Self::Crash {
                write: early(rng, reach),
                down: seconds(rng, &[0, 1, 10, 60]),
            },
            3 => Self::CrashStale {
                write: early(rng, reach),
                down: seconds(rng, &[0, 1, 10]),
                behind: early(rng, 8),
            },
            4 => Self::LoseAnswer {
                write: early(rng, reach),
            },
            5 => Self::Drop {
                request: early(rng, reach),
            },
            6 => Self::Fail {
                request: early(rng, reach),
                code: [429, 500, 503, 504][rng.usize(..4)],
            },
            7 => Self::Delay {
                request: early(rng, reach),
                by: seconds(rng, &[1, 5, 30]),
            },
            8 => Self::CutWatch {
                event: early(rng, reach),
            },
            9 => Self::LateEvents {
                event: early(rng, reach),
                by: seconds(rng, &[1, 10, 60]),
            },
            kind => Self::CutOff {
                at: Duration::from_secs(early(rng, reach) - 1),
                lasts: seconds(rng, &[1, 10, 60]),
                compacts: kind == KINDS - 1,
            },
        }
    }
}

/// A number from 1 to `reach`; smaller ones are more likely.
fn early(rng: &mut Rng, reach: u64) -> u64 {
    let halvings = u64::BITS - reach.max(1).leading_zeros();
    let most = reach.max(1) >> rng.u32(..halvings);
    rng.u64(1..=most.max(1))
}

fn seconds(rng: &mut Rng, choices: &[u64]) -> Duration {
    Duration::from_secs(choices[rng.usize(..choices.len())])
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(Fault::to_string).collect();
        match faults.is_empty() {
            true => write!(f, "{}", self.seed),
            false => write!(f, "{}: {}", self.seed, faults.join("; ")),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = &self.process;
        let s = |duration: &Duration| format!("{}s", duration.as_secs());
        match &self.trouble {
            Trouble::Crash { write, down } => write!(f, "crash {who} at write {write} for {}", s(down)),
            Trouble::CrashStale { write, down, behind } => {
                let down = s(down);
                write!(f, "crash {who} at write {write} for {down} back {behind} behind")
            }
            Trouble::LoseAnswer { write } => write!(f, "lose-answer {who} at write {write}"),
            Trouble::Drop { request } => write!(f, "drop {who} at request {request}"),
            Trouble::Fail { request, code } => write!(f, "fail {who} at request {request} with {code}"),
            Trouble::Delay { request, by } => write!(f, "delay {who} at request {request} by {}", s(by)),
            Trouble::CutWatch { event } => write!(f, "cut-watch {who} at event {event}"),
            Trouble::LateEvents { event, by } => {
                write!(f, "late-events {who} at event {event} by {}", s(by))
            }
            Trouble::CutOff { at, lasts, compacts } => {
                let end = if *compacts { " and compact" } else { "" };
                write!(f, "cut-off {who} at {} for {}{end}", s(at), s(lasts))
            }
        }
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let (seed, faults) = text.split_once(':').unwrap_or((text, ""));
        let seed = seed.trim().parse().map_err(|_| PlanError(text.to_owned()))?;
        let faults = faults.split(';').map(str::trim).filter(|fault| !fault.is_empty());
        let faults = faults.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { seed, faults })
    }
}

impl FromStr for Fault {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let process = words.get(1).copied().unwrap_or_default().to_owned();
        match read(&words) {
            Some(trouble) => Ok(Self { process, trouble }),
            None => Err(PlanError(text.to_owned())),
        }
    }
}

fn read(words: &[&str]) -> Option<Trouble> {
    let n = |word: &str| word.parse::<u64>().ok();
    let s = |word: &str| word.strip_suffix('s').and_then(n).map(Duration::from_secs);
    let trouble = match *words {
        ["crash", _, "at", "write", write, "for", down] => Trouble::Crash {
            write: n(write)?,
            down: s(down)?,
        },
        [
            "crash",
            _,
            "at",
            "write",
            write,
            "for",
            down,
            "back",
            behind,
            "behind",
        ] => Trouble::CrashStale {
            write: n(write)?,
            down: s(down)?,
            behind: n(behind)?,
        },
        ["lose-answer", _, "at", "write", write] => Trouble::LoseAnswer { write: n(write)? },
        ["drop", _, "at", "request", request] => Trouble::Drop { request: n(request)? },
        ["fail", _, "at", "request", request, "with", code] => Trouble::Fail {
            request: n(request)?,
            code: code.parse().ok()?,
        },
        ["delay", _, "at", "request", request, "by", by] => Trouble::Delay {
            request: n(request)?,
            by: s(by)?,
        },
        ["cut-watch", _, "at", "event", event] => Trouble::CutWatch { event: n(event)? },
        ["late-events", _, "at", "event", event, "by", by] => Trouble::LateEvents {
            event: n(event)?,
            by: s(by)?,
        },
        ["cut-off", _, "at", at, "for", lasts, ref rest @ ..] => Trouble::CutOff {
            at: s(at)?,
            lasts: s(lasts)?,
            compacts: match rest {
                [] => false,
                ["and", "compact"] => true,
                _ => return None,
            },
        },
        _ => return None,
    };
    Some(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_parsed_as_printed() {
        let mut faults = 0;
        for seed in 0..500 {
            let plan = Plan::draw(seed, &["runner", "web-1"], FaultOptions::default());
            assert_eq!(plan.to_string().parse(), Ok(plan.clone()), "{plan}");
            faults += plan.faults.len();
        }
        assert!((500..1500).contains(&faults), "{faults}");
    }

    #[test]
    fn invalid_plans_are_rejected() {
        for text in [
            "",
            "x",
            "1: crash",
            "1: crash a at write b for 1s",
            "1: cut-off a at 1s for 1s x",
        ] {
            assert!(text.parse::<Plan>().is_err(), "{text}");
        }
        assert_eq!("7".parse::<Plan>().unwrap().faults, []);
    }

    #[test]
    fn early_points_are_more_likely_and_late_ones_possible() {
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<u64> = (0..1000).map(|_| early(&mut rng, 32)).collect();
        assert!(drawn.iter().all(|point| (1..=32).contains(point)));
        assert!(drawn.iter().filter(|point| **point <= 4).count() > 500);
        assert!(drawn.iter().any(|point| *point > 24));
    }
}
