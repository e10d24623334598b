//! What a test cluster promises its tests.

mod support;
mod time;
