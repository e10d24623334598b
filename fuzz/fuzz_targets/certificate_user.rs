//! The subject of a client certificate: read or refused, never a panic.
#![no_main]

#[path = "../server.rs"]
mod server;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| server::certificate_user(bytes));
