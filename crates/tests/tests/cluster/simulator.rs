//! The simulated cluster on an embedded server, as a user sees it. Time is simulated, too: nobody waits.

mod autoscalers;
mod cron_jobs;
mod custom_kinds;
mod daemon_sets;
mod deployments;
mod disruption_budgets;
mod endpoints;
mod events;
mod garbage;
mod housekeeping;
mod jobs;
mod metrics;
mod namespaces;
mod pods;
mod quotas;
mod scheduling;
mod simulation;
mod stateful_sets;
mod support;
