#![no_main]

#[path = "../checks.rs"]
mod checks;

// libFuzzer's panic hook ends the process at every panic, even those of the scanner that the reader catches.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))),
    |data: &[u8]| checks::yaml(data)
);
