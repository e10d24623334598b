#![no_main]

#[path = "../cel.rs"]
mod cel;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cel::expression(data));
