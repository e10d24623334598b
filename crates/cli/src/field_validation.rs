//! `--validate`: what becomes of fields that a kind does not have, and of duplicate ones.

use clap::{Args, ValueEnum};
use watchkeeper_meta::FieldValidation;

/// The flag of a command that writes manifests.
#[derive(Clone, Debug, Args)]
pub(crate) struct Validate {
    /// Unknown and duplicate fields: fail (strict, true), warn, or drop them (ignore, false)
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "strict",
        default_value = "strict", hide_possible_values = true)]
    validate: Mode,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "lower")]
enum Mode {
    #[value(alias = "true")]
    Strict,
    Warn,
    #[value(alias = "false")]
    Ignore,
}

impl Validate {
    /// As an option of a request.
    pub(crate) fn mode(&self) -> Option<FieldValidation> {
        Some(match self.validate {
            Mode::Strict => FieldValidation::Strict,
            Mode::Warn => FieldValidation::Warn,
            Mode::Ignore => FieldValidation::Ignore,
        })
    }
}
