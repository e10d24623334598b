//! The guarantees of a test cluster.

mod described;
mod faults;
mod over_http;
mod sharded;
mod snapshots;
mod stages;
mod support;
mod time;
mod writes;
