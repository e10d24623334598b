//! Recordings are read as they were written.
#![allow(missing_docs)]

mod burst;
mod fuzz_corpus;
mod round_trip;
mod support;
