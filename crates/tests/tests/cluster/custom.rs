//! Derived kinds: their schemas, and their behaviour on a server.

mod real;
mod schemas;
mod server;
