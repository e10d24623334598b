//! The guarantees of a store, on every engine, across restarts and damage.

mod backup;
mod conformance;
mod damage;
mod list_and_watch;
mod quota;
mod restart;
mod retention;
mod upgrade;
