//! Realistic pods and the operations on them, for the programs of this crate and others that need a cluster's worth of
//! pods.

pub mod callgrind;
pub mod events;
pub mod pods;
pub mod work;
pub mod written;
