//! An audit policy: read or refused, never a panic.
#![no_main]

#[path = "../server.rs"]
mod server;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| server::audit_policy(bytes));
