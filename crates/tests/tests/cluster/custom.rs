//! Derived kinds: their schemas, and what a server makes of them.

mod schemas;
mod server;
