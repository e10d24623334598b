//! The runtime against the embedded API server: the same bytes as on a network, in one process.

mod custom_kinds;
mod faults;
mod follow;
mod helpers;
mod informer;
mod leader;
mod promises;
mod request_metrics;
mod simulation;
mod support;
mod typed;
