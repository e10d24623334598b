//! The parts together, on the embedded API server: the same bytes as on a network, in one process.

mod client;
mod custom;
mod page;
mod recording;
mod runtime;
mod several_servers;
mod simulator;
