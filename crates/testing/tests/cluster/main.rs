//! What a test cluster promises its tests.

mod faults;
mod snapshots;
mod support;
mod time;
mod writes;
