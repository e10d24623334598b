//! Simulations: the classic bugs of controllers are found, their corrections are not found wanting, and every run can be
//! repeated.
//!
//! Each of the files tells one bug: a careless controller that has it, and a careful one that has not.

mod finalizer;
mod intermediate_state;
mod leader;
mod lost_answer;
mod mechanics;
mod stale_state;
mod stale_status;
mod support;
mod unobserved_state;
