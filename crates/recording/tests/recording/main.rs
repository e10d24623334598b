//! What is written is what is read, whatever happens in between.
#![allow(missing_docs)]

mod round_trip;
mod support;
