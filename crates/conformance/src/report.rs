//! The results of the checks.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::check::Check;

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// The guarantee was kept.
    Passed,
    /// The guarantee was violated.
    Failed {
        /// The observation that contradicts the guarantee.
        seen: String,
    },
    /// The guarantee could not be checked.
    Skipped {
        /// The reason.
        reason: String,
    },
}

/// The result of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// The guarantee.
    pub promise: &'static str,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its duration; checks that share a run count it once.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub duration: Duration,
}

/// The results of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed of the writes: equal seeds make equal writes.
    pub seed: u64,
    /// One per requested check.
    pub findings: Vec<Finding>,
    /// True if it was stopped before all checks had run.
    pub interrupted: bool,
    /// Objects that could not be deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
}

impl Outcome {
    /// `passed`, `failed` or `skipped`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed { .. } => "failed",
            Self::Skipped { .. } => "skipped",
        }
    }
}

impl Report {
    /// True if no guarantee was violated.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Finding> {
        let is_failed = |finding: &&Finding| matches!(finding.outcome, Outcome::Failed { .. });
        self.findings.iter().filter(is_failed)
    }

    /// The number of checks with this outcome.
    pub fn count(&self, outcome: &str) -> usize {
        let ended = |finding: &&Finding| finding.outcome.name() == outcome;
        self.findings.iter().filter(ended).count()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.check, self.outcome.name())?;
        match &self.outcome {
            Outcome::Passed => Ok(()),
            Outcome::Failed { seen } => write!(f, ": promised: {}; seen: {seen}", self.promise),
            Outcome::Skipped { reason } => write!(f, ": {reason}"),
        }
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let milliseconds = duration.as_millis() as f64;
    serializer.serialize_f64(milliseconds / 1000.0)
}
