//! The runtime against the embedded API server, in one process, with the same bytes as on a network.

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
