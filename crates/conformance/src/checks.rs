//! Runs the checks one after the other, each with its own objects and time limit.

mod bookmarks;
mod expired;
mod lists;
mod no_op;
mod pages;
mod streaming_list;
mod watches;

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, FusedFuture as _, select};
use tokio::time::{Instant, timeout};
use watchkeeper_client::Client;
use watchkeeper_meta::Resource;

use crate::check::Check;
use crate::objects::{Objects, Stop};
use crate::report::{Finding, Outcome, Report};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The checks to run; empty for all.
    pub checks: Vec<Check>,
    /// The seed of the writes.
    pub seed: u64,
    /// The time to wait for an event that must come: far more than any server needs, and bearable if it never comes.
    pub patience: Duration,
    /// The time limit of one check.
    pub limit: Duration,
    /// The kind of the objects: namespaced, and with a free `data` of texts. ConfigMaps by default.
    pub kind: Resource,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checks: Vec::new(),
            seed: 1,
            patience: Duration::from_secs(10),
            limit: Duration::from_secs(60),
            kind: Resource::namespaced("", "v1", "ConfigMap", "configmaps"),
        }
    }
}

impl Options {
    fn selects(&self, check: Check) -> bool {
        self.checks.is_empty() || self.checks.contains(&check)
    }
}

type Verdicts = Vec<(Check, Result<(), Stop>)>;

/// Checks that evaluate the same run.
struct Scenario {
    checks: &'static [Check],
    run: for<'a> fn(&'a mut Objects, &'a Options) -> BoxFuture<'a, Result<Verdicts, Stop>>,
}

const SCENARIOS: [Scenario; 11] = [
    Scenario {
        checks: watches::CHECKS,
        run: watches::run,
    },
    Scenario {
        checks: bookmarks::CHECKS,
        run: bookmarks::run,
    },
    Scenario {
        checks: &[Check::StreamingList],
        run: streaming_list::run,
    },
    Scenario {
        checks: &[Check::Expired],
        run: expired::run,
    },
    Scenario {
        checks: &[Check::NoOp],
        run: no_op::run,
    },
    Scenario {
        checks: &[Check::ListLatest],
        run: lists::latest,
    },
    Scenario {
        checks: &[Check::ListAny],
        run: lists::any,
    },
    Scenario {
        checks: &[Check::ListNotOlderThan],
        run: lists::not_older_than,
    },
    Scenario {
        checks: &[Check::ListExact],
        run: lists::exact,
    },
    Scenario {
        checks: &[Check::ListFuture],
        run: lists::future,
    },
    Scenario {
        checks: &[Check::Pagination],
        run: pages::run,
    },
];

/// Checks the server of a client, with objects in one namespace. `found` is called with every result. When `stop`
/// completes, the current check is cancelled, its objects are deleted, and no other one starts.
pub async fn run(
    client: &Client,
    namespace: &str,
    options: &Options,
    stop: impl Future<Output = ()>,
    mut found: impl FnMut(&Finding),
) -> Report {
    let mut report = Report {
        seed: options.seed,
        findings: Vec::new(),
        interrupted: false,
        left_behind: Vec::new(),
    };
    let mut stop = std::pin::pin!(stop.fuse());
    for scenario in SCENARIOS {
        let wanted = scenario.checks.iter().filter(|check| options.selects(**check));
        let wanted: Vec<Check> = wanted.copied().collect();
        if wanted.is_empty() {
            continue;
        }
        let began = Instant::now();
        let mut objects = Objects::new(client, namespace, &options.kind);
        let ended = match stop.is_terminated() {
            true => Err(interrupted()),
            false => judge(&scenario, &mut objects, options, stop.as_mut()).await,
        };
        let mut duration = began.elapsed();
        report.left_behind.extend(clean_up(objects, options.limit).await);
        for check in wanted {
            let finding = Finding {
                check,
                promise: check.promise(),
                outcome: outcome(check, &ended),
                duration: std::mem::take(&mut duration),
            };
            found(&finding);
            report.findings.push(finding);
        }
    }
    report.interrupted = stop.is_terminated();
    report
}

/// Runs a scenario within its time limit.
async fn judge(
    scenario: &Scenario,
    objects: &mut Objects,
    options: &Options,
    stop: impl Future<Output = ()> + Unpin,
) -> Result<Verdicts, Stop> {
    let ended = timeout(options.limit, (scenario.run)(objects, options));
    match select(std::pin::pin!(ended), stop).await {
        Either::Left((Ok(ended), _)) => ended,
        Either::Left((Err(_), _)) => Err(Stop::Broken(format!("no end within {:?}", options.limit))),
        Either::Right(_) => Err(interrupted()),
    }
}

fn interrupted() -> Stop {
    Stop::Skipped("interrupted".to_owned())
}

async fn clean_up(objects: Objects, limit: Duration) -> Vec<String> {
    let left = timeout(limit, objects.clean_up()).await;
    left.unwrap_or_else(|_| vec![format!("what could not be deleted within {limit:?}")])
}

/// The outcome of a run for one of its checks. A run that ended early has the same outcome for all of them.
fn outcome(check: Check, ended: &Result<Verdicts, Stop>) -> Outcome {
    let stop = match ended {
        Err(stop) => stop,
        Ok(verdicts) => {
            let judged = verdicts.iter().find(|(judged, _)| *judged == check);
            match judged {
                Some((_, Err(stop))) => stop,
                Some((_, Ok(()))) => return Outcome::Passed,
                None => &Stop::Skipped("the run did not come to it".to_owned()),
            }
        }
    };
    match stop {
        Stop::Broken(seen) => Outcome::Failed { seen: seen.clone() },
        Stop::Skipped(reason) => Outcome::Skipped {
            reason: reason.clone(),
        },
    }
}

/// The only check of a scenario has passed.
fn kept(check: Check) -> Result<Verdicts, Stop> {
    Ok(vec![(check, Ok(()))])
}
