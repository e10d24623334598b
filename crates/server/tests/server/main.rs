//! The server from the outside.

mod client;
mod crash;
mod custom_kinds;
mod expressions;
mod faults;
mod first_second;
mod hostile;
mod http;
mod identity_files;
mod lines;
mod objects;
mod observer;
mod rights;
mod simulation;
mod tables;
mod watches;
mod webhooks;
