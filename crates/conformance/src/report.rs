//! What came of the checks.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::check::Check;

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// The promise was kept.
    Passed,
    /// The promise was broken.
    Failed {
        /// What was seen instead.
        seen: String,
    },
    /// The promise could not be judged.
    Skipped {
        /// Why not.
        reason: String,
    },
}

/// A check and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// What the server promises.
    pub promise: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took; checks that judge the same run take its time once.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub duration: Duration,
}

/// What came of all of them.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed of the writes: the same seed makes the same writes.
    pub seed: u64,
    /// One for each check that was asked for.
    pub findings: Vec<Finding>,
    /// Whether it was stopped before all checks had run.
    pub interrupted: bool,
    /// What could not be cleaned up.
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
    /// Whether no promise was broken.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Finding> {
        let is_failed = |finding: &&Finding| matches!(finding.outcome, Outcome::Failed { .. });
        self.findings.iter().filter(is_failed)
    }

    /// How many checks ended so.
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
