//! The server from the outside.

mod client;
mod http;
mod objects;
mod watches;
