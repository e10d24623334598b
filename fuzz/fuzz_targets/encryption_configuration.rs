//! An encryption configuration: read or refused, never a panic.
#![no_main]

#[path = "../server.rs"]
mod server;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| server::encryption_configuration(bytes));
