//! Rewrites `crates/wire/schema/builtin.schema` from the tables beside it.
//!
//! To update to another Kubernetes version: replace `types.tsv`, run `cargo run -p watchkeeper-schemagen`, commit both.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the error of a command-line program")]
            {
                eprintln!("schemagen: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/schema");
    let types = std::fs::read_to_string(folder.join("types.tsv"))?;
    let supplement = std::fs::read_to_string(folder.join("supplement.tsv"))?;
    let compiled = watchkeeper_schemagen::compile(&[&types, &supplement])?;
    std::fs::write(folder.join("builtin.schema"), compiled)?;
    Ok(())
}
