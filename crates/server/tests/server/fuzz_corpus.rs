//! The checks of the fuzz targets over their corpus, on any compiler: every input whole, cut short, and changed by chance.

#[path = "../../../../fuzz/server.rs"]
mod server;

use std::fs;
use std::path::Path;

/// Changes by chance for each input, always the same ones; `WATCHKEEPER_MUTATIONS` says how many.
fn mutations() -> usize {
    let told = std::env::var("WATCHKEEPER_MUTATIONS").ok();
    told.map_or(1_000, |number| number.parse().unwrap())
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = fs::read_dir(folder).unwrap();
    let inputs: Vec<_> = files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert!(!inputs.is_empty(), "{target} has no corpus");
    inputs
}

fn check(target: &str, check: fn(&[u8])) {
    let mut random = fastrand::Rng::with_seed(1);
    for input in corpus(target) {
        (0..=input.len()).for_each(|length| check(&input[..length]));
        for _ in 0..mutations() {
            let mut changed = input.clone();
            for _ in 0..random.usize(1..4) {
                let place = random.usize(..changed.len());
                changed[place] = random.u8(..);
            }
            check(&changed);
        }
    }
}

#[test]
fn audit_policies_are_read_or_refused() {
    check("audit_policy", server::audit_policy);
}

#[test]
fn encryption_configurations_are_read_or_refused() {
    check("encryption_configuration", server::encryption_configuration);
}

#[test]
fn certificates_name_a_user_or_nobody() {
    check("certificate_user", server::certificate_user);
}
