//! The language as Kubernetes speaks it: recorded expressions, limits, and properties of all of them.

mod fuzz_corpus;
mod language;
mod limits;
mod properties;
