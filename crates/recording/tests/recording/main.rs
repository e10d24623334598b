//! Recordings are read as they were written.
#![allow(missing_docs)]

mod round_trip;
mod support;
