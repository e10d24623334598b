//! What a test cluster promises its tests.

mod described;
mod faults;
mod over_http;
mod snapshots;
mod support;
mod time;
mod writes;
