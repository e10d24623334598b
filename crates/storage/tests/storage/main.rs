//! What a store promises, on every engine, through restarts and damage.

mod conformance;
mod damage;
mod list_and_watch;
mod restart;
mod retention;
