//! The result of a run, and the report of a failed one.

use std::error::Error;
use std::fmt;

use super::plan::Plan;
use super::trace::Trace;

/// A run and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The injected faults.
    pub plan: Plan,
    /// The trace.
    pub trace: Trace,
    /// The failure; `None` if there was none.
    pub failure: Option<Failure>,
}

/// The reason a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An invariant was violated after a write.
    Always {
        /// Its name.
        name: String,
        /// The invariant's message.
        why: String,
    },
    /// An invariant did not hold half an hour after the last fault.
    Eventually {
        /// Its name.
        name: String,
        /// The invariant's message.
        why: String,
    },
    /// Half an hour after the last fault, there are still writes.
    Restless,
    /// A process writes endlessly.
    Runaway {
        /// The number of writes.
        writes: u64,
    },
    /// A user sends requests without a pause, so that no virtual time passes.
    HotLoop {
        /// The user name: that of the process.
        who: String,
        /// The last request: its verb and path.
        request: String,
    },
    /// The workload panicked, or does not end.
    Workload(String),
    /// The cluster could not be started, or refused the manifest.
    Setup(String),
}

/// A failing run with the fewest faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The run.
    pub run: Run,
    /// The number of faults in the seed's plan.
    pub planned: usize,
}

impl Failure {
    pub(super) fn setup(error: &(dyn Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |&error| error.source());
        let causes: Vec<_> = causes.map(|error| error.to_string()).collect();
        Self::Setup(causes.join(": "))
    }

    /// True if two runs failed for the same reason, perhaps with other objects.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Always { name, .. }, Self::Always { name: other, .. })
            | (Self::Eventually { name, .. }, Self::Eventually { name: other, .. })
            | (Self::HotLoop { who: name, .. }, Self::HotLoop { who: other, .. }) => name == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always { name, why } => write!(f, "always {name:?}: {why}"),
            Self::Eventually { name, why } => write!(f, "eventually {name:?}: {why}"),
            Self::Restless => f.write_str("half an hour after the last fault, somebody is still writing"),
            Self::Runaway { writes } => write!(f, "more than {writes} writes"),
            Self::HotLoop { who, request } => {
                write!(f, "{who} sends requests without a pause, the last: {request}")
            }
            Self::Workload(why) => write!(f, "the workload failed: {why}"),
            Self::Setup(why) => write!(f, "the cluster cannot be set up: {why}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { plan, trace, failure } = &self.run;
        if let Some(failure) = failure {
            writeln!(f, "{failure}\n")?;
        }
        match plan.faults.as_slice() {
            [] => writeln!(f, "without any fault, with seed {}:\n", plan.seed)?,
            faults => {
                let (needed, planned) = (faults.len(), self.planned);
                writeln!(
                    f,
                    "with seed {}, and {needed} of its {planned} faults:",
                    plan.seed
                )?;
                faults.iter().try_for_each(|fault| writeln!(f, "  {fault}"))?;
                writeln!(f)?;
            }
        }
        write!(f, "{trace}\nto run it again:\n  simulation.replay(\"{plan}\");\n")
    }
}
