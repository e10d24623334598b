//! Cron jobs: jobs by the clock.

use super::super::defaulting::{fill, object_mut};
use super::super::{Hooks, PLAIN};
use super::default_template;

pub(in super::super) const HOOKS: Hooks = Hooks {
    default: |cron_job| {
        let Some(spec) = object_mut(cron_job, "spec") else {
            return;
        };
        fill(spec, "concurrencyPolicy", "Allow");
        fill(spec, "suspend", false);
        fill(spec, "successfulJobsHistoryLimit", 3);
        fill(spec, "failedJobsHistoryLimit", 1);
        if let Some(template) = object_mut(spec, "jobTemplate")
            && let Some(job) = object_mut(template, "spec")
        {
            default_template(job);
        }
    },
    ..PLAIN
};
