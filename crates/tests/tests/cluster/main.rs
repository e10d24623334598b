//! The parts together, on the embedded API server: the same bytes as on a network, in one process.

mod client;
mod custom;
mod runtime;
mod simulator;
