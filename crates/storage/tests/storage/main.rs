//! What a store promises, on every engine, through restarts, crashes and damage.

mod conformance;
mod crash;
mod damage;
mod list_and_watch;
mod restart;
mod retention;
