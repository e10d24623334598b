//! Tests of several crates together on the embedded API server, in one process, with the same bytes as on a network.

mod client;
mod custom;
mod page;
mod recording;
mod runtime;
mod several_servers;
mod simulator;
