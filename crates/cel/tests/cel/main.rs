//! CEL as used by Kubernetes: recorded expressions, limits and properties.

mod fuzz_corpus;
mod language;
mod limits;
mod properties;
