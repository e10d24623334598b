//! Simulations: classic controller bugs are found, corrected controllers pass, and every run is reproducible.
//!
//! Each file has one bug: a careless controller with it, and a careful one without.

mod finalizer;
mod intermediate_state;
mod leader;
mod lost_answer;
mod mechanics;
mod own_writes;
mod sharded;
mod stale_state;
mod stale_status;
mod support;
mod unobserved_state;
