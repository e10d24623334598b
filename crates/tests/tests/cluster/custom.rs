//! Derived kinds: their schemas, and what a server makes of them.

mod real;
mod schemas;
mod server;
