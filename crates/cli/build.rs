//! Strips the released program: the names of functions would be a sixth of it. The profile's `strip` does not reach a package
//! with settings of its own, and would take the names from benchmarks that look for them.

use std::env;

/// Keeps the names, for a profiler.
const KEEP: &str = "WATCHKEEPER_KEEP_SYMBOLS";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={KEEP}");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && env::var_os(KEEP).is_none() {
        // Not `-s`: the compiler driver puts it first, and the linker heeds the last, which is the profile's.
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
