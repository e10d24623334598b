//! Realistic pods and what is done with them, for the programs of this crate and for those that need a cluster's worth
//! of pods.

pub mod callgrind;
pub mod events;
pub mod pods;
pub mod work;
pub mod written;
