//! The simulated cluster on an embedded server, from a user's view. Time is simulated as well, so tests do not wait.

mod autoscalers;
mod certificates;
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
mod policies;
mod quotas;
mod scheduling;
mod simulation;
mod stateful_sets;
mod support;
