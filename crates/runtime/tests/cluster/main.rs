//! The runtime against the embedded API server: the same bytes as on a network, in one process.

mod custom_kinds;
mod faults;
mod follow;
mod helpers;
mod informer;
mod leader;
mod simulation;
mod support;
mod typed;
